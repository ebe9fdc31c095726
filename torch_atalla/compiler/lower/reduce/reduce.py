# SPDX-License-Identifier: BSD-3-Clause
"""Reductions: `reduce.*`, whose output keeps the input's rank with stride 0 where it was reduced."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import BOOL, FLOATING, INTEGER, REAL
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers

_INDEX = frozenset({torch.int64})


def _dims(value: Value, dim: int | list[int] | None) -> tuple[int, ...]:
    """Reduced dimensions; None or an empty list reduces all."""
    if dim is None or dim == []:
        return tuple(range(value.ndim))
    if value.ndim == 0:
        return ()
    dims = [dim] if isinstance(dim, int) else dim
    return tuple(sorted({d % value.ndim for d in dims}))


def _mask(dims: tuple[int, ...]) -> int:
    return sum(1 << d for d in dims)


def _keepdim(out: Value, source: Value, dims: tuple[int, ...]) -> Value:
    """`out` under the rank of `source`: size 1 and stride 0 in the reduced dimensions."""
    kept = iter(stride for d, stride in enumerate(out.meta.stride()) if out.ndim < source.ndim or d not in dims)
    sizes = [1 if d in dims else size for d, size in enumerate(source.shape)]
    strides = [0 if d in dims else next(kept) for d in range(source.ndim)]
    return out.view(out.meta.as_strided(sizes, strides))


def _reduce(
    ctx: LoweringContext,
    kernel: str,
    outputs: list[Value],
    source: Value,
    dims: tuple[int, ...],
    compute: torch.dtype,
    correction: float | None = None,
) -> None:
    if source.ndim == 0:  # reduced as one element in one dimension
        source, dims, outputs = source.unsqueeze(0), (0,), [out.unsqueeze(0) for out in outputs]
    views = [_keepdim(out, source, dims) for out in outputs]
    ctx.launch(kernel, list(views), [source], compute, reduced=_mask(dims), correction=correction)


def reduce_to(ctx: LoweringContext, kernel: str, out: Value, source: Value) -> None:
    """Reduces all elements to a tensor of one."""
    _reduce(ctx, kernel, [out.view(out.meta.view(()))], source, _dims(source, None), out.dtype)


def reduce_all(ctx: LoweringContext, node: torch.fx.Node, kernel: str, source: Value) -> Value:
    out = ctx.result_of(node)
    _reduce(ctx, kernel, [out], source, _dims(source, None), out.dtype)
    return out


def _rule(kernel: str, compute: str) -> Any:
    """A rule for ops of the form op(self, dim=None, keepdim=False, ...). compute: "input" or "result" dtype."""

    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: Any = None, **_: Any) -> Value:
        out = ctx.result_of(node)
        dtype = self.dtype if compute == "input" else out.dtype
        _reduce(ctx, kernel, [out], self, _dims(self, dim), dtype)
        return out

    return rule


lowers("sum.default", "sum.dim_IntList", dtypes=REAL - BOOL)(_rule("reduce.sum", "result"))
lowers("prod.default", "prod.dim_int", dtypes=REAL - BOOL)(_rule("reduce.prod", "result"))
lowers("mean.default", "mean.dim", dtypes=FLOATING)(_rule("reduce.mean", "result"))
lowers("amax.default", "max.default", dtypes=REAL)(_rule("reduce.amax", "result"))
lowers("amin.default", "min.default", dtypes=REAL)(_rule("reduce.amin", "result"))
lowers("any.default", "any.dim", "any.dims", dtypes=BOOL)(_rule("reduce.any", "input"))
lowers("all.default", "all.dim", "all.dims", dtypes=BOOL)(_rule("reduce.all", "input"))
lowers("logsumexp.default", dtypes=FLOATING)(_rule("reduce.logsumexp", "result"))
lowers("argmax.default", dtypes=_INDEX)(_rule("reduce.argmax", "input"))
lowers("argmin.default", dtypes=_INDEX)(_rule("reduce.argmin", "input"))


def _correction(correction: Any) -> float:
    return 1.0 if correction is None else float(correction)


def _deviation(kernel: str) -> Any:
    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: Any, correction: Any, **_: Any) -> Value:
        out = ctx.result_of(node)
        _reduce(ctx, kernel, [out], self, _dims(self, dim), out.dtype, _correction(correction))
        return out

    return rule


lowers("var.correction", dtypes=FLOATING)(_deviation("reduce.var"))
lowers("std.correction", dtypes=FLOATING)(_deviation("reduce.std"))


@lowers("var_mean.correction", dtypes=FLOATING)
def var_mean(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: Any, correction: Any, **_: Any
) -> tuple[Value, Value]:
    outputs = _pair(ctx, node)
    _reduce(ctx, "reduce.var_mean", list(outputs), self, _dims(self, dim), self.dtype, _correction(correction))
    return outputs


@lowers("std_mean.correction", dtypes=FLOATING)
def std_mean(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: Any, correction: Any, **_: Any
) -> tuple[Value, Value]:
    """A half-precision variance is not rounded before the root: the deviation is a reduction of its own."""
    deviation, mean = _pair(ctx, node)
    scratch = ctx.empty(deviation.shape, deviation.dtype)
    dims, subtracted = _dims(self, dim), _correction(correction)
    _reduce(ctx, "reduce.var_mean", [scratch, mean], self, dims, self.dtype, subtracted)
    _reduce(ctx, "reduce.std", [deviation], self, dims, self.dtype, subtracted)
    return deviation, mean


@lowers("aminmax.default", dtypes=REAL)
def aminmax(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int | None = None, **_: Any
) -> tuple[Value, Value]:
    low, high = _pair(ctx, node)
    _reduce(ctx, "reduce.amin", [low], self, _dims(self, dim), self.dtype)
    _reduce(ctx, "reduce.amax", [high], self, _dims(self, dim), self.dtype)
    return low, high


def _pair(ctx: LoweringContext, node: torch.fx.Node) -> tuple[Value, Value]:
    first, second = (ctx.empty(val.shape, val.dtype) for val in node.meta["val"])
    return first, second


def _extreme(kernel: str) -> Any:
    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, **_: Any) -> tuple[Value, Value]:
        if self.ndim == 0:
            raise NotNativeError("a dimension of a 0-d tensor")
        outputs = _pair(ctx, node)
        _reduce(ctx, kernel, list(outputs), self, _dims(self, dim), self.dtype)
        return outputs

    return rule


lowers("max.dim", dtypes=INTEGER | FLOATING | BOOL)(_extreme("reduce.max_dim"))
lowers("min.dim", dtypes=INTEGER | FLOATING | BOOL)(_extreme("reduce.min_dim"))


@lowers("linalg_vector_norm.default", dtypes=FLOATING, operands=FLOATING)
def vector_norm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    ord: Any,  # noqa: A002 (schema)
    dim: list[int] | None,
    keepdim: bool,
    dtype: torch.dtype | None,
) -> Value:
    """Sums of magnitudes and roots of sums of squares. (decompositions.py takes other norms apart.)"""
    if ord not in (1, 2):
        raise NotNativeError(f"ord={ord} not taken")
    out = ctx.result_of(node)
    source = self if dtype is None else ctx.cast(self, dtype)
    _reduce(ctx, f"reduce.norm{int(ord)}", [out], source, _dims(source, dim), out.dtype)
    return out


@lowers("nansum.default", dtypes=FLOATING, operands=FLOATING)
def nansum(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: Any, **_: Any) -> Value:
    out = ctx.result_of(node)
    _reduce(ctx, "reduce.nansum", [out], self, _dims(self, dim), out.dtype)
    return out
