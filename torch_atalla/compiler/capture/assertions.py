# SPDX-License-Identifier: BSD-3-Clause
"""Assertions about numbers in tensors become assertions about the tensors, which need no copy to the host."""

from __future__ import annotations

import operator
from typing import Any

import torch

from ..program.sizes import is_symbolic

aten = torch.ops.aten
Node = torch.fx.Node

_ARITHMETIC, _COMPARISONS = (
    {getattr(operator, name): getattr(aten, name).Tensor for name in names}
    for names in (("add", "sub", "mul"), ("eq", "ne", "lt", "le", "gt", "ge"))
)


def assert_on_tensors(graph: torch.fx.Graph) -> None:
    """Rewrites _assert_scalar(item(t) <= 3) to _assert_async(t <= 3). Assertions about sizes stay."""
    changed = False
    for node in graph.find_nodes(op="call_function", target=aten._assert_scalar.default):
        condition, message = node.args
        if not isinstance(condition, Node) or not _is_of_data(condition):
            continue
        with graph.inserting_before(node):
            made = graph.call_function(aten._assert_async.msg, (_tensor(graph, condition), message))
        made.meta = {**node.meta, "val": None}
        graph.erase_node(node)
        changed = True
    if changed:
        for node in reversed(graph.nodes):
            if node.op == "call_function" and not node.users and is_symbolic(node.meta.get("val")):
                graph.erase_node(node)


def _is_read(value: Any) -> bool:
    return isinstance(value, Node) and value.target is aten._local_scalar_dense.default


def _is_of_data(value: Any) -> bool:
    """Whether a number consists of constants and of what _tensor() can compute from tensors. Only integers: Python
    computes with floats of 64 bits."""
    if not isinstance(value, Node):
        return isinstance(value, (bool, int))
    if isinstance(value.meta.get("val"), (float, torch.SymFloat)):
        return False
    if value.target is torch.sym_ite:
        return tuple(value.args[1:]) == (1, 0) and _is_of_data(value.args[0])
    if value.target is torch.sym_not:
        return _is_of_data(value.args[0])
    known = value.target in _COMPARISONS or value.target in _ARITHMETIC
    return _is_read(value) or known and all(map(_is_of_data, value.args))


def _tensor(graph: torch.fx.Graph, value: Any) -> Node:
    """A tensor of one element with the number that a node of _is_of_data() stands for."""
    if not isinstance(value, Node):
        made = graph.call_function(aten.full.default, ([], value), {"dtype": torch.int64})
        made.meta = {"val": torch.empty((), dtype=torch.int64, device="meta")}
        return made
    if _is_read(value):
        return value.all_input_nodes[0]
    if value.target is torch.sym_ite:
        return _integer(graph, value.args[0])
    if value.target is torch.sym_not:
        return _call(graph, aten.logical_not.default, torch.bool, _tensor(graph, value.args[0]))
    operands = [_integer(graph, arg) for arg in value.args]
    if value.target in _ARITHMETIC:
        return _call(graph, _ARITHMETIC[value.target], torch.int64, *operands)
    return _call(graph, _COMPARISONS[value.target], torch.bool, *operands)


def _integer(graph: torch.fx.Graph, value: Any) -> Node:
    made = _tensor(graph, value)
    if made.meta["val"].dtype == torch.int64:
        return made
    return _call(graph, aten._to_copy.default, torch.int64, made, dtype=torch.int64)


def _call(graph: torch.fx.Graph, target: Any, result: torch.dtype, *args: Node, **kwargs: Any) -> Node:
    made = graph.call_function(target, args, kwargs)
    made.meta = {**args[0].meta, "val": args[0].meta["val"].new_empty((), dtype=result)}
    return made
