# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of more dimensions than a launch has: dimensions are joined, and what remains is divided into launches."""

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
OPS = POINTWISE | REDUCTIONS
SHAPES = {"13 wide": (2,) * 13, "16 wide": (2,) * 16, "64": (2, 3, *(1,) * 60, 4, 2)}


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
        assert mine.stride() == cpu.stride()


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
