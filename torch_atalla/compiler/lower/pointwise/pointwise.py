# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise ops: one launch each, wholly described by the support table."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from torch_atalla.driver.dtypes import FLOATING, INTEGER
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ...program import kernels
from ...program.support import Support, op_key
from ..context import LoweringContext, Value, immediate
from ..registry import lowers


def is_pointwise(entry: Support) -> bool:
    """Whether the table says all that a launch needs. An op with an adaptor may do more, or launch several kernels."""
    return "formula" in kernels.contract(entry.kernel).traits and not entry.adaptor


def lower_pointwise(ctx: LoweringContext, node: torch.fx.Node, entry: Support, arguments: dict[str, Any]) -> Value:
    kernel = entry.kernel
    if entry.variant_arg:
        choice = str(arguments[entry.variant_arg]).lower()
        if choice not in entry.variants:
            raise NotNativeError(f"{entry.variant_arg}={choice!r} not taken")
        kernel = entry.variants[choice]
    given = [arguments[name] for name in entry.inputs]
    val = node.meta["val"]
    compute = val.dtype
    if entry.result == "bool":
        types = entry.input_types or ("compute",) * len(given)
        compute = _promoted([value for value, kind in zip(given, types) if kind == "compute"])
    elif entry.result == "real" and any(isinstance(value, Value) and value.dtype.is_complex for value in given):
        compute = val.dtype.to_complex()
    return _launch(ctx, node, kernel, entry, given, [arguments[name] for name in entry.scalars], compute)


def _launch(
    ctx: LoweringContext,
    node: torch.fx.Node,
    kernel: str,
    entry: Support,
    given: list[Any],
    scalars: list[Any],
    compute: torch.dtype,
) -> Value:
    if entry.dtypes and dtype_name(compute) not in entry.dtypes:
        raise NotNativeError(f"dtype {dtype_name(compute)} not taken")
    sizes = tuple(node.meta["val"].shape)
    inputs = [value.expand(sizes) if isinstance(value, Value) else immediate(value) for value in given]
    out = ctx.result_of(node)
    ctx.launch(kernel, [out], inputs, compute, **_parameters(entry, scalars))
    return out


def launch_formula(
    ctx: LoweringContext, node: torch.fx.Node, out: Value, given: list[Value], scalars: list[Any]
) -> None:
    """Launches the pointwise formula of an op whose adaptor adds to it, computed in the dtype of `out`."""
    entry = ctx.support.get(op_key(node.target))
    if entry is None or not entry.kernel:
        raise NotNativeError("no native kernel")
    if dtype_name(out.dtype) not in entry.dtypes:
        raise NotNativeError(f"dtype {dtype_name(out.dtype)} not taken")
    if scalars and len(entry.scalars) != len(scalars):
        raise NotNativeError(f"expected the scalars {', '.join(entry.scalars)}")
    inputs = [value.expand(out.shape) for value in given]
    ctx.launch(entry.kernel, [out], inputs, out.dtype, **_parameters(entry, scalars))


def _promoted(values: list[Any]) -> torch.dtype:
    """The dtype in which a comparison compares."""
    args = [value.meta if isinstance(value, Value) else value for value in values]
    return elementwise_dtypes(*args, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[1]


def _parameters(entry: Support, scalars: list[Any]) -> dict[str, Any]:
    """Scalars of the formula by name; an optional one may be None."""
    given = dict(zip(entry.scalars, scalars))
    for name, value in given.items():
        if value is None and name not in entry.optional_scalars:
            raise NotNativeError(f"scalar {name} is missing")
        if not isinstance(value, (bool, int, float, type(None))):
            raise NotNativeError(f"scalar {name} of type {type(value).__name__} not taken")
    return given


@lowers("where.self", promotes=True)
def where(ctx: LoweringContext, node: torch.fx.Node, **arguments: Any) -> Value:
    entry = ctx.support.get("aten.where.self")
    if entry is None:
        raise NotNativeError("no native kernel")
    return lower_pointwise(ctx, node, entry, arguments)


@lowers("heaviside.default")
def heaviside(ctx: LoweringContext, node: torch.fx.Node, **arguments: Any) -> Value:
    """In eager mode, the only formula of two tensors without type promotion."""
    entry = ctx.support.get("aten.heaviside.default")
    if entry is None or arguments["self"].dtype != arguments["values"].dtype:
        raise NotNativeError("arguments of two dtypes, expected one")
    return lower_pointwise(ctx, node, entry, arguments)


@lowers("hardtanh.default", dtypes=FLOATING | INTEGER)
def hardtanh(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, min_val: Any, max_val: Any) -> Value:
    """A clamp. Of integers the bounds are integers."""
    entry = ctx.support.get("aten.clamp.default")
    if entry is None:
        raise NotNativeError("no native kernel")
    bounds = [min_val, max_val] if self.dtype.is_floating_point else [int(min_val), int(max_val)]
    return _launch(ctx, node, entry.kernel, entry, [self], bounds, self.dtype)


@lowers("clamp.Tensor", dtypes=FLOATING | INTEGER, promotes=True)
def clamp_tensor(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    min: Value | None,
    max: Value | None,  # noqa: A002 (schema)
) -> Value:
    bounds = [value for value in (min, max) if value is not None]
    kernel = "clamp_tensor" if len(bounds) == 2 else "maximum" if min is not None else "minimum"
    out = ctx.result_of(node)
    ctx.launch(f"pointwise.{kernel}", [out], [value.expand(out.shape) for value in (self, *bounds)], out.dtype)
    return out


@lowers("masked_fill.Scalar")
def masked_fill_scalar(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mask: Value, value: Any) -> Value:
    return masked_fill(ctx, node, self, mask, immediate(value))


@lowers("masked_fill.Tensor")
def masked_fill_tensor(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, mask: Value, value: Value) -> Value:
    return masked_fill(ctx, node, self, mask, value.expand(tuple(node.meta["val"].shape)))


def masked_fill(ctx: LoweringContext, node: torch.fx.Node, self: Value, mask: Value, value: Any) -> Value:
    sizes = tuple(node.meta["val"].shape)
    entry = ctx.support.get("aten.masked_fill_.Tensor")
    if entry is None:
        raise NotNativeError("no native kernel")
    by_name = {"self": self.expand(sizes), "mask": mask.expand(sizes), "value": value}
    out = ctx.result_of(node)
    ctx.launch(entry.kernel, [out], [by_name[name] for name in entry.inputs], out.dtype)
    return out
