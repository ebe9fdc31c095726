# SPDX-License-Identifier: BSD-3-Clause
"""Lowers one node: by its own rule, as a view, or to what eager mode launches for it."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import ExportError, NotNativeError

from ..program.layouts import is_dense, layout_of
from ..program.sizes import same_sizes, size_of_data, to_size
from ..program.support import op_key, qualified_name
from .context import LoweringContext
from .recorded import lower_recorded
from .registry import RULES, RegisteredRule, bind
from .value import Value
from .views import STORAGE_VIEWS, is_view, lower_getitem, lower_view, seen_in_memory

_READS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)


def lower_node(ctx: LoweringContext, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
    """Runs the rule of a call_function node. Raises NotNativeError when there is none, or when it declines.

    A result has the sizes and the dtype that upstream gives the node, and with `keep_strides` the strides too."""
    ctx.node = node.name
    if not isinstance(node.target, torch._ops.OpOverload):
        return lower_getitem(ctx, node, values)
    _check_sizes(node)
    if node.target in _READS and "unbounded" in node.meta:
        raise NotNativeError(node.meta["unbounded"])
    try:
        result = _lower(ctx, node, values)
    except GuardOnDataDependentSymNode:
        raise NotNativeError("a position or size that depends on data") from None
    exported: Any = node.meta.get("val")
    if isinstance(result, tuple):
        return tuple(_as_exported(ctx, node, *pair) for pair in zip(result, exported, strict=True))
    return _as_exported(ctx, node, result, exported)


def _as_exported(ctx: LoweringContext, node: torch.fx.Node, value: Value | None, exported: torch.Tensor) -> Any:
    if value is None:
        return None
    found, sizes = value.operand(), layout_of(exported)[0]
    if found.dtype != exported.dtype or not same_sizes(found.sizes, sizes):
        if exported is not _results(node)[0]:
            return value  # statistics for gradients, which upstream's meta functions know in part
        raise ExportError(
            f"node {node.name} ({qualified_name(node.target)}) was lowered to {dtype_name(found.dtype)}"
            f"{list(found.sizes)}, expected {dtype_name(exported.dtype)}{list(sizes)}; please report this"
        )
    # A view has the strides that its source gives it; inputs may differ from the export (layouts.py).
    target: Any = node.target
    if not ctx.keep_strides or is_view(target) or not is_dense(exported):
        return value
    return ctx.with_strides(value, exported)


def _lower(ctx: LoweringContext, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
    """A rule that declines leaves the node to the recording; its reason is then the one that counts."""
    arguments = bind(node, values)
    target: Any = node.target
    if target in STORAGE_VIEWS:
        arguments = seen_in_memory(ctx, node, arguments)
    rule = RULES.get(op_key(target))
    if rule is None:
        return lower_view(ctx, node, arguments) if is_view(target) else lower_recorded(ctx, node, arguments)
    program = ctx.program
    instructions, buffers = len(program.instructions), len(program.buffers)
    try:
        _check_dtypes(node, rule)
        return rule.rule(ctx, node, **arguments)
    except NotNativeError as declined:
        del program.instructions[instructions:], program.buffers[buffers:]
        try:
            return lower_recorded(ctx, node, arguments)
        except NotNativeError:
            raise declined from None


def _results(node: torch.fx.Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    found = value if isinstance(value, (tuple, list)) else [value]
    return [item for item in found if isinstance(item, torch.Tensor)]


def _check_sizes(node: torch.fx.Node) -> None:
    for result in _results(node):
        for size in result.shape:
            try:
                to_size(size)
            except NotNativeError:
                unbounded = node.meta.get("unbounded")
                raise NotNativeError(unbounded or size_of_data(node.target)) from None


def _check_dtypes(node: torch.fx.Node, rule: RegisteredRule) -> None:
    given = [arg.meta.get("val") for arg in node.all_input_nodes]
    dtypes = list(dict.fromkeys(value.dtype for value in given if isinstance(value, torch.Tensor)))
    for dtype in dtypes:
        if dtype not in rule.operands:
            raise NotNativeError(f"dtype {dtype_name(dtype)} not taken")
    inexact = [dtype_name(dtype) for dtype in dtypes if dtype.is_floating_point or dtype.is_complex]
    if len(inexact) > 1 and not rule.promotes:
        raise NotNativeError(f"arguments of the dtypes {', '.join(inexact)}, expected one")
    for result in _results(node)[:1]:
        if result.dtype not in rule.dtypes:
            raise NotNativeError(f"dtype {dtype_name(result.dtype)} not taken")
