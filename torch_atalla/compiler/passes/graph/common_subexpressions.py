# SPDX-License-Identifier: BSD-3-Clause
"""Computes equal expressions once, and keeps one of small constants that are equal. Ops that draw random numbers are
never merged."""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured, Constant
from ...program.random_nodes import draws
from ..pass_result import PassResult

_SMALL = 1024  # elements of a constant that is compared with others


def merge_common_subexpressions(captured: Captured) -> PassResult:
    seen: dict[Any, torch.fx.Node] = {}
    removed = []
    for node in list(captured.graph.nodes):
        key: Any
        if node.op == "get_attr":
            key = _contents(captured.constants.get(node.name))
        elif node.op == "call_function" and not (node.is_impure() or draws(node)):
            key = (node.target, _key(node.args), _key(node.kwargs))
        else:
            continue
        first = node if key is None else seen.setdefault(key, node)
        if first is not node:
            removed.append(node.name)
            node.replace_all_uses_with(first)
            captured.graph.erase_node(node)
            captured.constants.pop(node.name, None)
    return PassResult("merge_common_subexpressions", tuple(removed))


def _contents(constant: Constant | None) -> Any:
    """What a small constant that is no parameter consists of; None for another."""
    if constant is None or constant.kind != "constant" or constant.tensor.numel() > _SMALL:
        return None
    tensor = constant.tensor
    return tensor.dtype, tensor.shape, tensor.stride(), bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist())


def _key(arg: Any) -> Any:
    """A hashable form in which 1, 1.0 and True differ, as do 0.0 and -0.0."""
    if isinstance(arg, (list, tuple)):
        return tuple(_key(item) for item in arg)
    if isinstance(arg, dict):
        return tuple((name, _key(arg[name])) for name in sorted(arg))
    if isinstance(arg, (bool, int, float, complex)):
        return type(arg).__name__, repr(arg)
    return arg
