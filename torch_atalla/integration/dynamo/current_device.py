# SPDX-License-Identifier: BSD-3-Clause
"""Graphs that depend on the current device: a device without an ordinal is the one that is current in eager mode."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource, ImportSource


def guard_current_device() -> None:
    """Guard the code that Dynamo compiles on the current device."""
    module = AttrSource(ImportSource("torch"), "atalla")
    source = CallFunctionNoArgsSource(AttrSource(module, "current_device"))
    install_guard(source.make_guard(GuardBuilder.EQUALS_MATCH))


def guard_if_unnamed(graph_module: Any) -> None:
    """Guard on the current device if a graph of Dynamo has a device without an ordinal."""
    if torch._guards.TracingContext.try_get() is None:
        return
    modules = graph_module.modules() if isinstance(graph_module, torch.nn.Module) else ()
    graphs = [module.graph for module in modules if isinstance(module, torch.fx.GraphModule)]
    if any(_uses_current(node) for graph in graphs for node in graph.nodes):
        guard_current_device()


def name_devices(graph_module: torch.fx.GraphModule) -> None:
    """Give each device of a graph of AOTAutograd the ordinal that it had when the graph was traced."""
    for node in graph_module.graph.nodes:
        device = _device_of(node)
        if device is not None:
            leaves, structure = torch.utils._pytree.tree_flatten((node.args, node.kwargs))
            if any(map(_is_unnamed, leaves)):
                named = [device if _is_unnamed(leaf) else leaf for leaf in leaves]
                node.args, node.kwargs = torch.utils._pytree.tree_unflatten(named, structure)


def _uses_current(node: torch.fx.Node) -> bool:
    if node.op == "call_method" and node.target in ("atalla", "pin_memory"):
        return True
    return any(map(_is_unnamed, torch.utils._pytree.tree_leaves((node.args, node.kwargs))))


def _is_unnamed(value: Any) -> bool:
    if isinstance(value, str):
        return value == "atalla"
    return isinstance(value, torch.device) and value.type == "atalla" and value.index is None


def _device_of(node: torch.fx.Node) -> torch.device | None:
    value = node.meta.get("val")
    return value.device if isinstance(value, torch.Tensor) and value.device.type == "atalla" else None
