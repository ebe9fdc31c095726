# SPDX-License-Identifier: BSD-3-Clause
"""Strides that values of an export have in eager mode, where upstream's fake tensors have others."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from .composites import keeps_format

aten = torch.ops.aten
Node = torch.fx.Node

# The first result is contiguous, where upstream's meta functions keep the strides of the input. True: unless the input
# is channels-last.
CONTIGUOUS = {
    **dict.fromkeys((aten.log_sigmoid.default, aten.log_sigmoid_forward.default), False),
    **dict.fromkeys(
        (
            aten.batch_norm.default,
            aten.native_batch_norm.default,
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit.no_stats,
            aten._native_batch_norm_legit_functional.default,
            aten._native_batch_norm_legit_no_training.default,
        ),
        True,
    ),
}


def values_of_eager_mode(graph: torch.fx.Graph) -> dict[Node, Any]:
    """Fake results of the nodes whose strides differ from those that the export says: of the ops in CONTIGUOUS, and of
    what follows them. Without values of dynamic sizes."""
    changed: dict[Node, Any] = {}
    for node in graph.nodes:
        follows = any(source in changed for source in node.all_input_nodes)
        if node.op != "call_function" or not (follows or node.target in CONTIGUOUS):
            continue
        known = [changed.get(n, n.meta.get("val")) for n in node.all_input_nodes]
        value = node.meta.get("val")
        if not all(map(_is_fixed, (*known, value))) or isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: changed.get(n, n.meta.get("val")))
        mode = next((x.fake_mode for x in tree_leaves(known) if isinstance(x, FakeTensor)), None)
        if mode is None:
            continue
        with mode, torch.no_grad():
            found = node.target(*args, **kwargs) if follows else value
            if node.target in CONTIGUOUS and not keeps_format(args[0], CONTIGUOUS[node.target]):
                first, *rest = found if isinstance(found, (tuple, list)) else (found,)
                found = (first.contiguous(), *rest) if isinstance(found, (tuple, list)) else first.contiguous()
        if _strides(found) != _strides(value):
            changed[node] = found
    return changed


def _is_fixed(value: Any) -> bool:
    leaves = tree_leaves(value)
    numbers = [n for x in leaves if isinstance(x, torch.Tensor) for n in (*x.shape, *x.stride())]
    return value is not None and not any(isinstance(n, torch.SymInt) for n in (*numbers, *leaves))


def _strides(value: Any) -> list[Any]:
    return [x.stride() for x in tree_leaves(value) if isinstance(x, torch.Tensor)]
