# SPDX-License-Identifier: BSD-3-Clause
"""Fourier transforms: one launch a dimension."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import COMPLEX, REAL

from ...program.layouts import dense_meta
from ..context import LoweringContext, Value
from ..registry import lowers

_BY_ROOT, _BY_LENGTH = 1, 2  # modes of normalization; 0 is none


@lowers("_fft_r2c.default", dtypes=COMPLEX)
def fft_r2c(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: list[int], normalization: int, onesided: bool
) -> Value:
    *others, last = (d % self.ndim for d in dim)
    others = _outermost_first(self, others)
    scale = _factor(self.shape, [*others, last], normalization)
    out = ctx.result_of(node)
    ctx.launch("fft.r2c", [out], [self], out.dtype, dim=last, factor=1 if others else scale)
    return _others(ctx, out, others, scale, forward=True)


@lowers("_fft_c2c.default", dtypes=COMPLEX, operands=COMPLEX)
def fft_c2c(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: list[int], normalization: int, forward: bool
) -> Value:
    return _complex(ctx, self, [d % self.ndim for d in dim], normalization, forward=forward)


@lowers("_fft_c2r.default", dtypes=REAL, operands=COMPLEX)
def fft_c2r(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: list[int], normalization: int, last_dim_size: int
) -> Value:
    """Complex transforms along all dimensions but the last, whose input need not be Hermitian."""
    *others, last = (d % self.ndim for d in dim)
    source = _complex(ctx, self, others, normalization, forward=False)
    out = ctx.result_of(node)
    ctx.launch("fft.c2r", [out], [source], self.dtype, dim=last, factor=_factor(out.shape, [last], normalization))
    return out


def _complex(ctx: LoweringContext, source: Value, dims: list[int], normalization: int, *, forward: bool) -> Value:
    if not dims:
        return source
    *others, last = _outermost_first(source, dims)
    scale = _factor(source.shape, dims, normalization)
    out = ctx.empty(source.shape, source.dtype)
    ctx.launch("fft.c2c", [out], [source], out.dtype, dim=last, forward=forward, factor=1 if others else scale)
    return _others(ctx, out, others, scale, forward=forward)


def _others(ctx: LoweringContext, source: Value, dims: list[int], scale: float, *, forward: bool) -> Value:
    """The innermost of the remaining dimensions first; the last transform scales."""
    for k in reversed(range(len(dims))):
        out = ctx.new_value(dense_meta(source.meta))
        ctx.launch("fft.c2c", [out], [source], out.dtype, dim=dims[k], forward=forward, factor=1 if k else scale)
        source = out
    return source


def _outermost_first(source: Value, dims: list[int]) -> list[int]:
    return sorted(dims, key=lambda d: -source.meta.stride()[d])


def _factor(sizes: tuple[int, ...], dims: list[int], normalization: int) -> float:
    if normalization not in (_BY_ROOT, _BY_LENGTH):
        return 1
    n = 1
    for d in dims:
        n = n * sizes[d]
    return 1 / (torch.sym_sqrt(n) if normalization == _BY_ROOT else n)
