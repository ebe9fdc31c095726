# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: E501
"""Small programs with features that single calls lack: views of values, mixed dtypes, several results.

name -> (function, example inputs)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

torch.manual_seed(0)


class Fn(nn.Module):
    def __init__(self, fn: Any):
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


X = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4) / 7 - 1
CASES = {
    "transposed matmul": (lambda a, b: a.t() @ b.t(), (torch.randn(5, 3), torch.randn(4, 5))),
    "bmm broadcast": (lambda a, b: a @ b, (torch.randn(2, 1, 3, 4), torch.randn(5, 4, 2))),
    "linear without bias on permuted rows": (
        lambda x, w: nn.functional.linear(x.permute(1, 0, 2), w), (torch.randn(2, 3, 4), torch.randn(5, 4))),
    "sum bool": (lambda x: (x > 0).sum(1), (X,)),
    "sum of transposed": (lambda x: x.permute(2, 0, 1).sum(1), (X,)),
    "layer norm of permuted": (lambda x: nn.functional.layer_norm(x.permute(2, 1, 0), (2,)), (X,)),
    "cat mixed dtypes": (lambda x: torch.cat([x, (x > 0)], -1), (X,)),
    "repeat": (lambda x: x.transpose(0, 2).repeat(2, 1, 1, 3), (X,)),
    "expand flatten": (lambda x: x[:1].expand(4, 3, 4).reshape(12, 4) + 1, (X,)),
    "slices": (lambda x: x[:, 1:, ::2] * x[0, 0, 0], (X,)),
    "unbind split chunk": (lambda x: x.unbind(1)[1] + x.split([1, 2], 1)[1][:, 0] + x.chunk(2, 2)[1][:, 1, :1], (X,)),
    "as_strided": (lambda x: x.as_strided((3, 3), (4, 1), 2).exp(), (X,)),
    "casts": (lambda x: (x.to(torch.int32), x.double(), x.half().float(), x.bool()), (X,)),
    "comparison of mixed dtypes": (lambda x, i: (i < x, i >= 1, i == 1.5), (X[0, 0], torch.arange(4))),
    "masked fill": (lambda x: x.masked_fill(x > 0, -1.0).masked_fill(x < -0.5, torch.tensor(2.0)), (X,)),
    "integer division is floating": (lambda i: i / 3, (torch.arange(5),)),
    "alpha": (lambda x: torch.add(x, x, alpha=2) - torch.sub(x, 1, alpha=3), (X,)),
    "index apart": (lambda x, i, j: x[i, :, j], (X, torch.tensor([[0], [1]]), torch.tensor([1, -1]))),
    "products of vectors": (lambda a, b, m: (a @ b, m @ a, torch.addmv(b[:3], m, a, beta=2, alpha=0.5), torch.vdot(a, b)),
                            (torch.randn(4), torch.randn(4), torch.randn(3, 4))),
    "deviations": (lambda x: (torch.std_mean(x, 1), x.std(), torch.aminmax(x), torch.aminmax(x, dim=2)), (X,)),
    "reductions of 0-d": (lambda x: (y := x[0, 0, 0], y.sum(), y.amax(), y.norm(), y.argmax()), (X,)),
    "other norms": (lambda x: (x.norm(3), torch.linalg.vector_norm(x, 0, 1), x.half().norm(dim=-1).float()), (X,)),
    "activations kept whole": (lambda x: (nn.functional.hardsigmoid(x), nn.functional.softplus(x), x.frac()), (X,)),
    "full and arange": (lambda x: torch.full_like(x, 2) + torch.arange(4, dtype=torch.float32) + torch.zeros(4), (X,)),
    "conv": (lambda x, w, b: nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2),
             (torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 3), torch.randn(6))),
    "max_pool_dilated": (lambda x: nn.functional.max_pool2d(x, 2, 1, dilation=2, ceil_mode=True), (torch.randn(3, 9, 8),)),
    "zero size": (lambda x: (x[:0] + 1, x[:0].sum(0), torch.cat([x[:0], x])), (X,)),
    "zero dim": (lambda x: x[0, 0, 0].exp() + 1, (X,)),
    "causal attention": (lambda q: nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), (torch.randn(2, 2, 5, 4),)),
    "attention of rank 3": (lambda q, k: nn.functional.scaled_dot_product_attention(q, k, k), (torch.randn(2, 5, 4), torch.randn(2, 3, 4))),
    "float mask": (lambda q, m: nn.functional.scaled_dot_product_attention(q, q, q, m), (torch.randn(1, 2, 3, 4), torch.randn(3, 3))),
    "same value twice": (lambda x: (x + 1, (y := x * 2), y), (X,)),
    "overlapping views of one value": (lambda x: (y := x.exp(), y[0], y[:, 0].t()), (X,)),
    "in place program": (lambda x: x.clone().add_(1).mul_(2).relu_(), (X,)),
}  # fmt: skip
