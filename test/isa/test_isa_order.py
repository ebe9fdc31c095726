# SPDX-License-Identifier: BSD-3-Clause
"""Sorting and selecting with equal elements: both engines of a program with Atalla code keep their order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from chip_op_calls import Function

import torch_atalla
from torch_atalla.compiler.capture.stable_order import STABLE

aten = torch.ops.aten
CALLS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    "sort": lambda x: aten.sort.default(x, 1, True),
    "topk": lambda x: aten.topk.default(x, 3, 1),
    "most": lambda x: aten.topk.default(x, 35, 1, False),
    "kthvalue": lambda x: aten.kthvalue.default(x, 2, 1),
    "middle": lambda x: aten.kthvalue.default(x, 30, 0, True),
    "median": lambda x: aten.median.dim(x, 1),
    "nanmedian": lambda x: aten.nanmedian.dim(x, 0),
    "mode": lambda x: aten.mode.default(x, 1),
    "mode of columns": lambda x: aten.mode.default(x, 0, True),
}


def expected(call: Callable, x: torch.Tensor) -> list[torch.Tensor]:
    """By the stable op, which no engine runs."""

    class Stable(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            with torch.utils._python_dispatch._disable_current_modes():
                return STABLE.get(op, op)(*args, **kwargs or {})

    with Stable():
        return list(call(x))


def values(dtype: torch.dtype) -> torch.Tensor:
    x = torch.randint(-3, 4, (40, 47), generator=torch.Generator().manual_seed(1)).to(dtype)
    if dtype.is_floating_point:
        x[3], x[5, ::3], x[:, 4], x[7, :5] = torch.nan, torch.nan, -0.0, torch.inf
    return x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_both_engines_are_stable(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    x = values(dtype) if dtype is not torch.uint8 else values(torch.int32).abs().to(torch.uint8)
    torch_atalla.save_loadable(
        Function(lambda x: tuple(CALLS[name](x))), tmp_path / "a.atl", args=(x,), engine="isa", fallback="error"
    )
    for engine in ("functional", "isa"):
        found = torch_atalla.load_loadable(tmp_path / "a.atl", engine=engine)(x.to("atalla"))
        for a, b in zip(found, expected(CALLS[name], x), strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8], ids=str)
def test_programs_without_code_are_as_eager_mode(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    x = values(torch.int32).abs().to(dtype)
    function = Function(lambda x: tuple(CALLS[name](x)))
    torch_atalla.save_loadable(function, tmp_path / "a.atl", args=(x,), fallback="error", golden=False)
    found = torch_atalla.load_loadable(tmp_path / "a.atl")(x.to("atalla"))
    for a, b in zip(found, CALLS[name](x.to("atalla")), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
