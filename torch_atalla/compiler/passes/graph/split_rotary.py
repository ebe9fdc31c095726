# SPDX-License-Identifier: BSD-3-Clause
"""Rotary embedding by halves: the rotated tensor is never made.

    x * cos + cat([-x2, x1]) * sin    becomes    cat([x1 * cos1 - x2 * sin1, x2 * cos2 + x1 * sin2])

with x1, x2 the halves of the last dimension. Each half is one chain of elementwise operations that ends in its place.
Every element is computed by the same operations as before, so the bits stay.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from ...program.call_arguments import arguments_of
from ...program.layouts import exact_meta
from .matching import (
    argument,
    computed_meta,
    is_static,
    is_tensor,
    new_node,
    node_pass,
    only_user,
    operands,
    shape,
    value,
)

aten = torch.ops.aten


@node_pass(aten.add.Tensor)
def split_rotary(captured: Captured, node: torch.fx.Node) -> bool:
    for first, second in operands(node) if is_static(node) else ():
        found = _rotary(node, first, second)
        if found is not None:
            _replace(captured, node, *found)
            return True
    return False


def _rotary(node: torch.fx.Node, first: Any, second: Any) -> tuple[Any, ...] | None:
    """(x, x1, -x2, x2, cos, sin) of first = x * cos and second = cat([-x2, x1]) * sin."""
    if any(
        not is_tensor(item) or item.target is not aten.mul.Tensor or only_user(item) is not node
        for item in (first, second)
    ):
        return None
    for turned, sin in operands(second):
        halves = _halves(turned)
        if halves is None or only_user(turned) is not second:
            continue
        x, *rest = halves
        for source, cos in operands(first):
            if source is x and all(_spans(item, x) for item in (cos, sin)) and shape(node) == shape(x):
                return (x, *rest, cos, sin)
    return None


def _spans(factor: Any, x: torch.fx.Node) -> bool:
    """Whether a factor has a value of its own for each element of the last dimension, in x's dtype."""
    return is_static(factor) and shape(factor)[-1:] == shape(x)[-1:] and value(factor).dtype == value(x).dtype


def _halves(turned: Any) -> tuple[Any, ...] | None:
    """(x, x1, -x2, x2) of cat([-x2, x1])."""
    if not is_tensor(turned) or turned.target is not aten.cat.default or len(argument(turned)) != 2:
        return None
    last = value(turned).ndim - 1
    negated, x1 = argument(turned)
    if len(turned.args) < 2 or argument(turned, 1) not in (-1, last) or negated.target is not aten.neg.default:
        return None
    x2 = argument(negated)
    x = argument(x1)
    if any(item.target is not aten.slice.Tensor or argument(item) is not x for item in (x1, x2)):
        return None
    width = shape(x)[last]
    if width % 2 or [_range(item, last, width) for item in (x1, x2)] != [(0, width // 2), (width // 2, width)]:
        return None
    return x, x1, negated, x2


def _range(node: torch.fx.Node, last: int, width: int) -> tuple[int, int] | None:
    """Of a slice of the last dimension."""
    _, dim, start, end, step = arguments_of(node).values()
    if dim not in (-1, last) or step != 1:
        return None
    begin, stop, _ = slice(start, end).indices(width)
    return begin, stop


def _replace(
    captured: Captured, node: torch.fx.Node, x: Any, x1: Any, negated: Any, x2: Any, cos: Any, sin: Any
) -> None:
    half, last = shape(x)[-1] // 2, value(x).ndim - 1

    def new(op: torch._ops.OpOverload, *args: Any) -> torch.fx.Node:
        return new_node(captured, op, args, {}, node, computed_meta(op, *args))

    def sum_of(mine: torch.fx.Node, other: torch.fx.Node, begin: int) -> torch.fx.Node:
        factors = [new(aten.slice.Tensor, item, value(item).ndim - 1, begin, begin + half) for item in (cos, sin)]
        return new(aten.add.Tensor, new(aten.mul.Tensor, mine, factors[0]), new(aten.mul.Tensor, other, factors[1]))

    with captured.graph.inserting_before(node):
        sums = [sum_of(x1, negated, 0), sum_of(x2, x1, half)]
        meta = exact_meta(value(node))
        result = new_node(captured, aten.cat.default, (sums, last), {}, node, meta)
    node.replace_all_uses_with(result)
    captured.graph.erase_node(node)
