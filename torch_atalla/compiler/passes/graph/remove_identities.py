# SPDX-License-Identifier: BSD-3-Clause
"""Removes what does nothing in a graph without mutation: copies, aliases, metadata assertions, no-op casts."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.loadable.errors import NotNativeError

from ...capture.capture import Captured
from ...program.layouts import layout_of
from ...program.sizes import lowering_with
from ...program.support import overloads
from .matching import node_pass

aten = torch.ops.aten

# A clone matters only to a later mutation, and to the layout.
_COPIES = overloads("clone", "alias", "detach", "contiguous", "lift_fresh_copy", "lift_fresh", "positive")
# Views, which may ask for the sizes that there are.
_VIEWS = overloads("view", "_unsafe_view", "reshape", "expand")
# Assertions on metadata hold: sizes and dtypes are specialised.
_ASSERTIONS = {aten._assert_tensor_metadata.default, aten.sym_constrain_range_for_size.default}
# A condition on the sizes of inputs is a guard of the file.
_CONDITIONS = {aten._assert_scalar.default}


@node_pass(*_ASSERTIONS, *_CONDITIONS, *_VIEWS, *_COPIES, aten._to_copy.default)
def remove_identities(captured: Captured, node: torch.fx.Node, *, keep_strides: bool = True) -> bool:
    """keep_strides: a copy with other strides stays, since the order of dimensions in memory decides about bits. Else
    lowering makes a layout where one is needed."""
    if node.target in _ASSERTIONS or node.target in _CONDITIONS:
        removed = node.target in _ASSERTIONS or _becomes_guard(captured, node)
    else:
        removed = _is_identity(captured, node, keep_strides)
        if removed:
            source: Any = node.args[0]
            node.replace_all_uses_with(source)
    if removed:
        captured.graph.erase_node(node)
    return removed


def _is_identity(captured: Captured, node: torch.fx.Node, keep_strides: bool) -> bool:
    if node.target in _VIEWS:
        return not _changes_layout(captured, node)
    return (node.target in _COPIES or _is_empty_cast(node)) and not (keep_strides and _changes_layout(captured, node))


def _changes_layout(captured: Captured, node: torch.fx.Node) -> bool:
    source: Any = node.args[0]
    try:
        with lowering_with(captured.symbols):
            return layout_of(source.meta["val"]) != layout_of(node.meta["val"])
    except NotNativeError:  # sizes that depend on data
        return True


def _becomes_guard(captured: Captured, node: torch.fx.Node) -> bool:
    condition = node.args[0]
    value = condition.meta.get("val") if isinstance(condition, torch.fx.Node) else condition
    symbols = captured.symbols
    if not isinstance(value, torch.SymBool) or symbols.shape_env is None:
        return False
    expr = symbols.replace(value.node.expr)
    if not expr.free_symbols <= set(symbols.assignment()):
        return False
    if expr.free_symbols:
        symbols.guards.append((expr, str(expr)))
    return True


def _is_empty_cast(node: torch.fx.Node) -> bool:
    if node.target is not aten._to_copy.default:
        return False
    source: Any = node.args[0]
    source, result = source.meta["val"], node.meta["val"]
    return source.dtype == result.dtype and source.layout == result.layout
