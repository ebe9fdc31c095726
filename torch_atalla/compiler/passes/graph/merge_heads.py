# SPDX-License-Identifier: BSD-3-Clause
"""Attention writes its result where the merged heads stand, if nobody else reads it: then merging them copies nothing.

Fused attention may have contiguous strides [b, h, l, e] in eager mode; what follows is a transposition and a contiguous
copy. No value depends on the strides in between.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from .matching import ATTENTION, node_pass

aten = torch.ops.aten


@node_pass(ATTENTION)
def merge_heads(captured: Captured, node: torch.fx.Node) -> bool:
    if not node.users or not all(_merges_heads(user) for user in node.users):
        return False
    graph, value = captured.graph, node.meta["val"]
    b, h, rows, width = value.shape
    with graph.inserting_after(node):
        result = graph.call_function(ATTENTION, node.args, node.kwargs)
    strided = value.new_empty((b, rows, h, width))
    result.meta = {**node.meta, "val": strided.transpose(1, 2)}
    with graph.inserting_after(result):
        turned = graph.call_function(aten.permute.default, (result, [0, 2, 1, 3]))
    turned.meta = {**node.meta, "val": strided}
    for user in list(node.users):
        for copy in list(user.users):
            copy.replace_all_uses_with(turned)
            graph.erase_node(copy)
        graph.erase_node(user)
    graph.erase_node(node)
    return True


def _merges_heads(node: torch.fx.Node) -> bool:
    """Whether it swaps heads and rows, and only contiguous copies read it."""
    args: Any = node.args[1:]
    turned = node.target is aten.transpose.int and {d % 4 for d in args} == {1, 2}
    turned |= node.target is aten.permute.default and [d % 4 for d in args[0]] == [0, 2, 1, 3]
    return (
        turned
        and node.meta["val"].ndim == 4
        and all(copy.target is aten.clone.default and copy.meta["val"].is_contiguous() for copy in node.users)
    )
