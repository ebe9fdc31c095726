# SPDX-License-Identifier: BSD-3-Clause
"""Ops that move elements: joining, splitting, flipping, rolling, padding, repeating, sorting the dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opinfo_suite import answered, raised

DEVICE = "atalla"
DTYPES = [torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.float32, torch.complex64]
SHAPES = [(3, 4), (2, 3, 4), (1, 5, 2, 3)]

# Of one tensor of at least two dimensions.
MOVES: dict[str, Callable[[torch.Tensor], Any]] = {
    "flip": lambda x: x.flip(0, -1),
    "fliplr": torch.fliplr,
    "flipud": torch.flipud,
    "roll": lambda x: x.roll((1, -2), (0, 1)),
    "roll flat": lambda x: x.roll(5),
    "roll far": lambda x: x.roll(-17, 1),
    "rot90": lambda x: x.rot90(3, (0, 1)),
    "repeat": lambda x: x.repeat(2, *(1,) * (x.ndim - 2), 3),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "tile": lambda x: x.tile(2, 2),
    "cat": lambda x: torch.cat((x, x.flip(0), x[:1]), 0),
    "cat of views": lambda x: torch.cat((x.transpose(0, 1), x.transpose(0, 1)[:, :0], x.transpose(0, 1)), 1),
    "stack": lambda x: torch.stack((x, x), -1),
    "hstack": lambda x: torch.hstack((x, x)),
    "vstack": lambda x: torch.vstack((x, x)),
    "dstack": lambda x: torch.dstack((x, x)),
    "pad": lambda x: F.pad(x, (1, 2, -1, 3)),
    "tril": lambda x: x.tril(1),
    "triu": lambda x: x.triu(-1),
    "diag_embed": lambda x: x.diag_embed(1),
    "diagonal_scatter": lambda x: x.diagonal_scatter(torch.zeros_like(x.diagonal())),
    "select_scatter": lambda x: x.select_scatter(torch.zeros_like(x[:, 0]), 1, 0),
    "slice_scatter": lambda x: x.slice_scatter(torch.zeros_like(x[:, :1]), 1, 0, 1),
    "contiguous of transposed": lambda x: x.transpose(0, -1).contiguous(),
    "reshape of transposed": lambda x: x.transpose(0, 1).reshape(-1),
    "block_diag": lambda x: torch.block_diag(x.flatten(1), x.flatten(1)),
    "meshgrid": lambda x: torch.meshgrid(x.flatten()[:3], x.flatten()[:2], indexing="ij"),
    "cartesian_prod": lambda x: torch.cartesian_prod(x.flatten()[:3], x.flatten()[:2]),
    "atleast_3d": torch.atleast_3d,
    "unfold_copy": lambda x: torch.unfold_copy(x, 1, 2, 1),
    "expand and clone": lambda x: x.unsqueeze(0).expand(3, *x.shape).clone(),
}


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    x = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape)
    return (x % 3 == 0) if dtype == torch.bool else (x % 100).to(dtype)


def same(got: Any, want: Any) -> None:
    for g, w in zip(*((v,) if isinstance(v, torch.Tensor) else v for v in (got, want)), strict=True):
        assert g.device.type == DEVICE
        torch.testing.assert_close(g.cpu(), w, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_values(name: str, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        x = numbers(shape, dtype)
        same(MOVES[name](x.to(DEVICE)), MOVES[name](x))


@pytest.mark.parametrize("name", MOVES)
def test_of_a_view(name: str) -> None:
    x = numbers((4, 6, 5), torch.float32)
    for view in (lambda t: t[1:, ::2], lambda t: t.permute(2, 0, 1), lambda t: t[:1].expand(3, 6, 5)):
        same(MOVES[name](view(x.to(DEVICE))), MOVES[name](view(x)))


@pytest.mark.parametrize("name", MOVES)
def test_empty(name: str) -> None:
    """A dimension of size zero: an empty result, or upstream's error."""
    for shape in ((0, 3), (3, 0)):
        x = torch.empty(shape)
        error = raised(lambda x=x: MOVES[name](x))
        if error is None:
            same(MOVES[name](x.to(DEVICE)), MOVES[name](x))
        else:
            here = answered(lambda x=x: MOVES[name](x.to(DEVICE)))
            assert (type(here), str(here)) == (type(error), str(error))


def test_cat_promotes_and_skips_the_legacy_empty_tensor() -> None:
    x, y = torch.arange(3), torch.rand(2)
    same(torch.cat((x.to(DEVICE), y.to(DEVICE), torch.empty(0, device=DEVICE))), torch.cat((x, y, torch.empty(0))))


def test_channels_last_is_kept() -> None:
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    d = x.to(DEVICE)
    for f in (torch.clone, torch.relu, lambda t: t + t, lambda t: torch.empty_like(t), lambda t: torch.cat((t, t), 1)):
        assert f(d).stride() == f(x).stride()
    assert d.contiguous().stride() == x.contiguous().stride()
    same(d.contiguous(memory_format=torch.contiguous_format), x)


def test_copy_between_all_layouts() -> None:
    for view in (lambda t: t.permute(2, 1, 0), lambda t: t.transpose(0, 1), lambda t: t[:, ::2], lambda t: t[..., 3:]):
        target, host = torch.zeros(4, 5, 6, device=DEVICE), torch.zeros(4, 5, 6)
        source = torch.rand(view(host).shape)
        view(target).copy_(source.to(DEVICE))
        view(host).copy_(source)
        same(target, host)


def test_enough_ops() -> None:
    assert len(MOVES) >= 30
