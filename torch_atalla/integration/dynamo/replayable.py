# SPDX-License-Identifier: BSD-3-Clause
"""Which graphs can be replayed as device graphs: those that do nothing but launch pure operators on one device."""

from __future__ import annotations

import operator
from typing import Any

import torch

from torch_atalla.compiler.capture.triton_kernels import triton_kernel
from torch_atalla.compiler.lower.views import STORAGE_VIEWS

from .regions import Node, is_free, may_be_input, tensors_of

# Operators of other libraries may compute on the host, and their work would then run at the capture only.
_NAMESPACES = ("aten", "prims", "atalla")


def wants_replay(graph_module: torch.fx.GraphModule, replay: bool) -> bool:
    """Return whether a graph of Dynamo is to be replayed: torch._dynamo.override_cudagraphs comes before the option."""
    annotation = getattr(graph_module, "meta", {}).get("cudagraph_annotation")
    return replay if annotation is None or annotation.fwd is None else annotation.fwd


def can_replay(graph_module: torch.fx.GraphModule, device: torch.device | None) -> str | None:
    """Return why a compiled graph cannot be captured, or None if it can.

    `device` is the one on which the graph runs.
    """
    launches = False
    for node in graph_module.graph.nodes:
        reason = _refusal(node, device)
        if reason is not None:
            return reason
        launches |= node.op == "call_function" and not is_free(node) and any(t.numel() for t in tensors_of(node))
    return None if launches else "it launches nothing"


def _refusal(node: Node, device: torch.device | None) -> str | None:
    if node.op == "placeholder" and not isinstance(node.meta.get("val"), torch.Tensor):
        return f"input {node.name} is no tensor"
    for tensor in tensors_of(node):
        if tensor.device != device:
            return f"{node.name} is a tensor on {tensor.device}, not on {device}"
        if any(isinstance(size, torch.SymInt) for size in (*tensor.shape, *tensor.stride())):
            return "sizes are dynamic"
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return f"{node.name} is not a dense tensor"
    if node.op != "call_function" or node.target is operator.getitem or triton_kernel(node) is not None:
        return None
    return _refusal_of_call(node)


def _refusal_of_call(node: Node) -> str | None:
    target: Any = node.target
    if target is torch.ops.higher_order.flex_attention:  # the lowering decomposes it
        return None
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in _NAMESPACES:
        return f"{node.name} calls {target}, which may do more than launch work"
    if target._schema.is_mutable:
        return f"it updates {node.args[0]}"
    if not tensors_of(node):
        return f"{node.name} gives a number to the host"
    if target in STORAGE_VIEWS and may_be_input(node.args[0]):
        return f"{node.name} reads memory of an input that may lie outside of the input"
    return None
