# SPDX-License-Identifier: BSD-3-Clause
"""Selection by an element that the program computes, such as `x[position]` with an integer tensor `position`.

torch.export writes it as `select(x, dim, item(position))`, which takes the element to the host. Here it becomes
`index(x, [None] * dim + [position])`, which stays on the chip and counts negative elements from the end as well.
select_scatter, which is an assignment to such a selection, becomes index_put.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten

_ITEMS = (aten._local_scalar_dense.default, aten.item.default)
_POSITION: dict[Any, int] = {aten.select.int: 2, aten.select_scatter.default: 3}  # where an op takes the number
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def index_by_elements(graph: torch.fx.Graph) -> None:
    """Elements that anything else reads too stay as they are."""
    for node in list(graph.nodes):
        if node.target not in _ITEMS or not node.users:
            continue
        element = node.args[0]
        if element.meta["val"].dtype in _INTEGERS and all(_selects_by(user, node) for user in node.users):
            for user in list(node.users):
                _index(graph, user, element)
            graph.erase_node(node)


def _selects_by(user: torch.fx.Node, number: torch.fx.Node) -> bool:
    place = _POSITION.get(user.target)
    if place is None or len(user.args) != place + 1 or user.args[place] is not number:
        return False
    return all(type(size) is int for size in user.meta["val"].shape)


def _index(graph: torch.fx.Graph, user: torch.fx.Node, element: torch.fx.Node) -> None:
    source: Any
    dim: Any
    source, *written, dim, _ = user.args
    value, position = user.meta["val"], element.meta["val"]

    def insert(op: torch._ops.OpOverload, args: tuple, meta: torch.Tensor, **kwargs: Any) -> torch.fx.Node:
        node = graph.call_function(op, args, kwargs)
        node.meta = {**user.meta, "val": meta}
        return node

    with graph.inserting_before(user):
        if position.ndim != 0:
            element = insert(aten.view.default, (element, []), position.new_empty(()))
        if position.dtype != torch.int64:
            wide = position.new_empty((), dtype=torch.int64)
            element = insert(aten._to_copy.default, (element,), wide, dtype=torch.int64)
        indices = [None] * (int(dim) % source.meta["val"].ndim) + [element]
        op = aten.index_put.default if written else aten.index.Tensor
        made = insert(op, (source, indices, *written), value.new_empty(value.shape))
    user.replace_all_uses_with(made)
    graph.erase_node(user)
