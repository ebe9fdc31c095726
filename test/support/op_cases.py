# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: E501
"""Small programs, one a lowering rule or a difficulty of one: name -> (function, example inputs)."""

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
    "addmm alpha beta": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), tuple(torch.randn(3, 3, 3))),
    "int mm": (lambda a, b: a @ b, (torch.arange(6).view(2, 3), torch.arange(12).view(3, 4))),
    "bmm broadcast": (lambda a, b: a @ b, (torch.randn(2, 1, 3, 4), torch.randn(5, 4, 2))),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=2), (torch.randn(3), torch.randn(2, 4, 5), torch.randn(2, 5, 3))),
    "vector matmul": (lambda a, b: a @ b, (torch.randn(4), torch.randn(4, 3))),
    "linear without bias on permuted rows": (
        lambda x, w: nn.functional.linear(x.permute(1, 0, 2), w), (torch.randn(2, 3, 4), torch.randn(5, 4))),
    "sum all": (lambda x: x.sum(), (X,)),
    "sum keepdim": (lambda x: x.sum((0, 2), keepdim=True), (X,)),
    "sum negative dim": (lambda x: x.sum(-2), (X,)),
    "sum bool": (lambda x: (x > 0).sum(1), (X,)),
    "sum of transposed": (lambda x: x.permute(2, 0, 1).sum(1), (X,)),
    "mean": (lambda x: x.mean((1, 2)), (X,)),
    "amax amin": (lambda x: (x.amax(0), x.amin((1, 2))), (X,)),
    "max min": (lambda x: (x.max(), x.min()), (X,)),
    "max dim": (lambda x: x.max(1), (X,)),
    "min values only": (lambda x: x.min(2).values, (X,)),
    "argmax": (lambda x: (x.argmax(), x.argmax(1, keepdim=True)), (X,)),
    "any all": (lambda x: ((x > 2).any(), (x > -5).all(1)), (X,)),
    "var": (lambda x: (x.var(1), x.std((0, 2), correction=0), torch.var_mean(x, 2)), (X,)),
    "logsumexp": (lambda x: x.logsumexp((0, 1)), (X,)),
    "norms": (lambda x: (x.norm(), x.norm(1, dim=0), torch.linalg.vector_norm(x, float("inf"), (0, 1))), (X,)),
    "softmax inner": (lambda x: (x.softmax(1), x.log_softmax(0)), (X,)),
    "layer norm two dims": (lambda x: nn.functional.layer_norm(x, (3, 4)), (X,)),
    "layer norm of permuted": (lambda x: nn.functional.layer_norm(x.permute(2, 1, 0), (2,)), (X,)),
    "native layer norm": (lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5), (X,)),
    "cat": (lambda x: torch.cat([x, x * 2, x[:, :1]], 1), (X,)),
    "cat mixed dtypes": (lambda x: torch.cat([x, (x > 0)], -1), (X,)),
    "stack": (lambda x: torch.stack([x, -x], 2), (X,)),
    "pad": (lambda x: nn.functional.pad(x, (1, 2, -1, 1), value=3.0), (X,)),
    "repeat": (lambda x: x.transpose(0, 2).repeat(2, 1, 1, 3), (X,)),
    "expand flatten": (lambda x: x[:1].expand(4, 3, 4).reshape(12, 4) + 1, (X,)),
    "slices": (lambda x: x[:, 1:, ::2] * x[0, 0, 0], (X,)),
    "unbind split chunk": (lambda x: x.unbind(1)[1] + x.split([1, 2], 1)[1][:, 0] + x.chunk(2, 2)[1][:, 1, :1], (X,)),
    "as_strided": (lambda x: x.as_strided((3, 3), (4, 1), 2).exp(), (X,)),
    "slice update": (lambda x: torch.slice_scatter(x, x[:, :2] * 0, 1, 1, 3), (X,)),
    "select update": (lambda x: torch.select_scatter(x, x[0] + 9, 0, 1), (X,)),
    "casts": (lambda x: (x.to(torch.int32), x.double(), x.half().float(), x.bool()), (X,)),
    "comparisons": (lambda x: (x > 0, x == x.t().t() if x.ndim == 2 else x <= 1, x != 0.5), (X,)),
    "comparison of mixed dtypes": (lambda x, i: (i < x, i >= 1, i == 1.5), (X[0, 0], torch.arange(4))),
    "where": (lambda x: torch.where(x > 0, x, 0.0), (X,)),
    "masked fill": (lambda x: x.masked_fill(x > 0, -1.0).masked_fill(x < -0.5, torch.tensor(2.0)), (X,)),
    "integer division is floating": (lambda i: i / 3, (torch.arange(5),)),
    "alpha": (lambda x: torch.add(x, x, alpha=2) - torch.sub(x, 1, alpha=3), (X,)),
    "clamp": (lambda x: (x.clamp(0), x.clamp(max=0.5), x.clamp(-0.25, 0.25)), (X,)),
    "int clamp": (lambda i: i.clamp(1, 3), (torch.arange(5),)),
    "embedding": (lambda w, i: nn.functional.embedding(i, w), (torch.randn(9, 4), torch.tensor([[1, 8], [0, 3]]))),
    "index select": (lambda x, i: x.index_select(2, i), (X, torch.tensor([3, 0, 0]))),
    "gather": (lambda x, i: x.gather(1, i), (X, torch.randint(0, 3, (2, 2, 4)))),
    "index": (lambda x, i, j: x[:, i, j], (X, torch.tensor([[0], [2]]), torch.tensor([1, -1]))),
    "index apart": (lambda x, i, j: x[i, :, j], (X, torch.tensor([[0], [1]]), torch.tensor([1, -1]))),
    "products of vectors": (lambda a, b, m: (a @ b, m @ a, torch.addmv(b[:3], m, a, beta=2, alpha=0.5), torch.vdot(a, b)),
                            (torch.randn(4), torch.randn(4), torch.randn(3, 4))),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, beta=0.5), (torch.randn(3), torch.randn(2, 4, 5), torch.randn(2, 5, 3))),
    "deviations": (lambda x: (torch.std_mean(x, 1), x.std(), torch.aminmax(x), torch.aminmax(x, dim=2)), (X,)),
    "reductions of 0-d": (lambda x: (y := x[0, 0, 0], y.sum(), y.amax(), y.norm(), y.argmax()), (X,)),
    "other norms": (lambda x: (x.norm(3), torch.linalg.vector_norm(x, 0, 1), x.half().norm(dim=-1).float()), (X,)),
    "activations kept whole": (lambda x: (nn.functional.hardsigmoid(x), nn.functional.softplus(x), x.frac()), (X,)),
    "cumsum": (lambda x: x.cumsum(1), (X,)),
    "triangles": (lambda x: (x.triu(1), x.tril()), (X,)),
    "full and arange": (lambda x: torch.full_like(x, 2) + torch.arange(4, dtype=torch.float32) + torch.zeros(4), (X,)),
    "conv": (lambda x, w, b: nn.functional.conv2d(x, w, b, stride=2, padding=1, groups=2),
             (torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 3), torch.randn(6))),
    "max_pool": (lambda x: nn.functional.max_pool2d(x, 3, 2, 1), (torch.randn(2, 3, 9, 8),)),
    "max_pool_dilated": (lambda x: nn.functional.max_pool2d(x, 2, 1, dilation=2, ceil_mode=True), (torch.randn(3, 9, 8),)),
    "avg_pool": (lambda x: nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (torch.randn(2, 3, 9, 8),)),
    "avg_pool_divisor": (
        lambda x: nn.functional.avg_pool2d(x, (2, 3), ceil_mode=True, divisor_override=5), (torch.randn(2, 3, 9, 8),),
    ),
    "adaptive_avg_pool": (lambda x: nn.functional.adaptive_avg_pool2d(x, (4, 3)), (torch.randn(2, 3, 9, 8),)),
    "hardtanh": (lambda x: nn.functional.hardtanh(x, -0.5, 0.75), (torch.randn(3, 5),)),
    "sort": (lambda x: torch.sort(x, 0, descending=True), (torch.randn(7, 3),)),
    "topk": (lambda x: torch.topk(x, 2, dim=1), (torch.randn(3, 5),)),
    "bilinear": (lambda x: nn.functional.interpolate(x, (7, 5), mode="bilinear"), (torch.randn(1, 2, 3, 4),)),
    "bilinear by scale": (
        lambda x: nn.functional.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
        (torch.randn(1, 2, 4, 4),),
    ),
    "conv1d": (lambda x, w: nn.functional.conv1d(x, w, dilation=2), (torch.randn(1, 3, 9), torch.randn(2, 3, 2))),
    "zero size": (lambda x: (x[:0] + 1, x[:0].sum(0), torch.cat([x[:0], x])), (X,)),
    "zero dim": (lambda x: x[0, 0, 0].exp() + 1, (X,)),
    "causal attention": (lambda q: nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True), (torch.randn(2, 2, 5, 4),)),
    "attention of rank 3": (lambda q, k: nn.functional.scaled_dot_product_attention(q, k, k), (torch.randn(2, 5, 4), torch.randn(2, 3, 4))),
    "grouped attention": (lambda q, k: nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True),
                          (torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8))),
    "float mask": (lambda q, m: nn.functional.scaled_dot_product_attention(q, q, q, m), (torch.randn(1, 2, 3, 4), torch.randn(3, 3))),
    "same value twice": (lambda x: (x + 1, (y := x * 2), y), (X,)),
    "overlapping views of one value": (lambda x: (y := x.exp(), y[0], y[:, 0].t()), (X,)),
    "in place program": (lambda x: x.clone().add_(1).mul_(2).relu_(), (X,)),
}  # fmt: skip
