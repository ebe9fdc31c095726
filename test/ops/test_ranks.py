# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of more dimensions than a launch has: dimensions are joined, and what remains is divided into launches. Ops
along one dimension join those on both sides of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_atalla

POINTWISE = {
    "add": lambda x: x + x.permute(*reversed(range(x.ndim))),
    "out of place relu": lambda x: (x - 3).relu(),
    "where": lambda x: torch.where(x > 3, x, -x.permute(*reversed(range(x.ndim)))),
    "masked fill": lambda x: x.masked_fill(x.permute(*reversed(range(x.ndim))) > 2, 0.5),
    "copy": lambda x: x.permute(*reversed(range(x.ndim))).contiguous(),
    "conversion": lambda x: x.to(torch.int32),
    "fill": lambda x: x.clone().permute(*reversed(range(x.ndim)))[0].fill_(2.0),
    "expanded": lambda x: x.unsqueeze(0).expand(3, *x.shape) + 1 if x.ndim < 64 else x,
}
REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum of every second": lambda x: x.sum(tuple(range(0, x.ndim, 2))),
    "mean, kept": lambda x: x.mean((1, x.ndim - 1), keepdim=True),
    "maximum and position": lambda x: x.max(1),
    "position": lambda x: x.argmax(),
    "variance": lambda x: x.var((0, x.ndim - 1)),
    "any": lambda x: (x > 5).any(0),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=(0, 1)),
}
first = torch.tensor([0, 0])
ALONG_DIMENSION = {
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: (x / 60).cumprod(-1),
    "cummax": lambda x: x.cummax(1),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "sort": lambda x: x.sort(dim=1, stable=True),
    "sort of permuted": lambda x: x.transpose(0, -1).sort(dim=1, descending=True, stable=True).values,
    "topk": lambda x: x.topk(2, 1).values,
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-2),
    "median": lambda x: x.median(),
    "median of a dimension": lambda x: x.median(1).values,
    "median, kept": lambda x: x.median(1, keepdim=True).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "mode": lambda x: x.mode(1).values,
    "quantile": lambda x: x.quantile(0.3, dim=1),
    "flip": lambda x: x.flip(0, -1),
    "roll": lambda x: x.roll((1, -2), (1, -1)),
    "roll of all": lambda x: x.roll(7),
    "cat": lambda x: torch.cat([x, x + 1, x[:, :1]], 1),
    "stack": lambda x: torch.stack([x, x], 1) if x.ndim < 64 else x,
    "index_select": lambda x: x.index_select(1, first.to(x.device)),
    "index_add": lambda x: x.index_add(1, first.to(x.device), x[:, :2], alpha=2),
    "index_fill": lambda x: x.clone().index_fill_(1, first.to(x.device), 3.0),
    "index_copy in place": lambda x: (
        x.clone().transpose(0, 1).index_copy_(0, first[:1].to(x.device), x.transpose(0, 1)[1:2])
    ),
    "gather": lambda x: x.gather(1, (x[:, :1] > 50).long()),
    "gather of a part": lambda x: x.gather(1, (x[:1] > 50).long()),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, (x[:, :1] > 50).long(), x),
    "scatter_add": lambda x: x.scatter_add(-1, torch.zeros_like(x).long(), x),
    "renorm": lambda x: x.renorm(2, 1, 3.0),
    "masked_select": lambda x: x.masked_select(x[:, :1] > 50),
    "nonzero": lambda x: x.nonzero(),
    "unique of a dimension": lambda x: x.unique(dim=1, return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x: x.unique_consecutive(return_inverse=True),
    "fft": lambda x: torch.view_as_real(torch.fft.fft(x, dim=1)) if x.ndim < 64 else x,
    "fft of several": lambda x: torch.view_as_real(torch.fft.fftn(x, dim=(0, -1))) if x.ndim < 64 else x,
    "fft of real, back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, dim=(1, -1), norm="ortho"), dim=(1, -1)),
    "tril": lambda x: x.tril(),
    "triu in place": lambda x: x.clone().transpose(0, -1).triu_(1),
    "index": lambda x: x[first.to(x.device)],
    "index of several": lambda x: x[:, last(x), ..., first.to(x.device)],
    "index of neighbours": lambda x: x[:, last(x)[:, None], first.to(x.device)],
    "index by a mask": lambda x: x[x > 50],
    "index by a mask of some": lambda x: x[:, x[0, ..., 0] > 50],
    "write at an index": lambda x: written(x, (first.to(x.device), slice(None), first.to(x.device)), x[:1, 0, 0]),
    "add at an index": lambda x: x.index_put((first.to(x.device),), x[:2] / 3, accumulate=True),
    "write at a mask": lambda x: written(x, x > 50, x[0, 0, ..., 0, 0].flatten()[0]),
    "write at a mask, permuted": lambda x: written(x.transpose(0, -1), x.transpose(0, -1) > 50, 7.0),
    "written results": lambda x: torch.cumsum(x, 1, out=torch.empty(0, device=x.device)),
    "written positions": lambda x: torch.nonzero(x, out=torch.empty(0, dtype=torch.long, device=x.device)),
    "gradients": lambda x: gradients(x),
}
OPS = POINTWISE | REDUCTIONS | ALONG_DIMENSION
SHAPES = {"13 wide": (2,) * 13, "16 wide": (2,) * 16, "64": (2, 3, *(1,) * 60, 4, 2)}


def last(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([-1, 0], device=x.device) if x.shape[1] == 2 else torch.tensor([2, -2], device=x.device)


def written(x: torch.Tensor, at: object, values: object) -> torch.Tensor:
    x = x.clone()
    x[at] = values
    return x


def gradients(x: torch.Tensor) -> torch.Tensor:
    y = (x / 60).requires_grad_()
    (y.softmax(1) * y.cumsum(0) + y.log_softmax(-1) * y.flip(1) + y.gather(1, (x > 50).long())).sum().backward()
    assert y.grad is not None
    return y.grad


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPS)
def test_values(name: str, shape: str) -> None:
    op: Callable = OPS[name]
    x = torch.arange(float(torch.Size(SHAPES[shape]).numel())).reshape(SHAPES[shape]).remainder(101)
    if shape == "64" and name in ("add", "where", "masked fill"):
        x = x[:, :2, ..., :2, :]  # as long from both ends
    found, expected = op(x.to("atalla")), op(x)
    for mine, cpu in zip(*((item,) if isinstance(item, torch.Tensor) else item for item in (found, expected))):
        torch.testing.assert_close(mine.cpu(), cpu)
        assert name in ALONG_DIMENSION or mine.stride() == cpu.stride()


@pytest.mark.parametrize("shape", SHAPES)
def test_random_numbers_follow_the_order_of_elements(shape: str) -> None:
    sizes = SHAPES[shape]
    draws = {
        "uniform": lambda x: x.uniform_(),
        "normal": lambda x: x.normal_(),
        "integers": lambda x: x.random_(100),
        "truth": lambda x: x.bernoulli_(0.3),
        "truth by element": lambda x: torch.bernoulli(torch.full_like(x, 0.3)),
        "counts": lambda x: torch.poisson(torch.full_like(x, 3)),
        "dropout": lambda x: torch.nn.functional.dropout(torch.ones_like(x), 0.5),
    }
    for name, draw in draws.items():
        found = []
        for rank in (sizes, (torch.Size(sizes).numel(),)):
            torch.atalla.manual_seed(5)
            found.append(draw(torch.empty(rank, device="atalla")).cpu().flatten())
        assert torch.equal(*found), name
    torch.atalla.manual_seed(5)
    turned = torch.empty(sizes, device="atalla").permute(*reversed(range(len(sizes)))).uniform_()
    torch.atalla.manual_seed(5)
    assert torch.equal(turned.cpu(), torch.empty(turned.shape, device="atalla").uniform_().cpu())
