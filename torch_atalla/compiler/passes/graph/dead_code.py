# SPDX-License-Identifier: BSD-3-Clause
"""Removes nodes whose values nobody reads, and constants that no node reads. Inputs stay: they are the signature."""

from __future__ import annotations

from ...capture.capture import Captured
from ..pass_result import PassResult


def remove_dead_code(captured: Captured) -> PassResult:
    removed = []
    for node in reversed(list(captured.graph.nodes)):
        if node.users or node.op == "output":
            continue
        if node.op == "call_function" and not node.is_impure():
            removed.append(node.name)
            captured.graph.erase_node(node)
        elif node.name in captured.constants:
            removed.append(node.name)
            del captured.constants[node.name]
            captured.graph.erase_node(node)
    return PassResult("remove_dead_code", tuple(reversed(removed)))
