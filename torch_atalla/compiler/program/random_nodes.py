# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that draw random numbers: random ops, functions that call one, and control flow with one in its body."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils._pytree import tree_leaves


def draws(node: torch.fx.Node) -> bool:
    """Return whether a node advances the state of a generator."""
    return node.op == "call_function" and (_is_random(node) or any(map(draws, _body_nodes(node))))


def drawing_devices(node: torch.fx.Node) -> list[torch.device]:
    """Return the devices whose generators a node may advance."""
    if not _is_random(node):
        return list(dict.fromkeys(device for inner in _body_nodes(node) for device in drawing_devices(inner)))
    values = [node.meta.get("val"), *(arg.meta.get("val") for arg in node.all_input_nodes)]
    return list(dict.fromkeys(leaf.device for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)))


def _is_random(node: torch.fx.Node) -> bool:
    ops = (node.target, *node.args)  # a function that is given an op calls it
    return any(isinstance(op, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in op.tags for op in ops)


def _body_nodes(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield the nodes of the graphs that a node is given."""
    for arg in node.all_input_nodes:
        body = getattr(node.graph.owning_module, str(arg.target), None) if arg.op == "get_attr" else None
        if isinstance(body, torch.fx.GraphModule):
            yield from body.graph.nodes
