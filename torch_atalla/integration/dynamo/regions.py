# SPDX-License-Identifier: BSD-3-Clause
"""Split of a graph into regions, which become one program each, and other nodes, which run one by one.

Regions exclude ops without a lowering, tensors on other devices and arithmetic on sizes. They also exclude views of
inputs and of results of regions: such views need no launch and must share memory with their base.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import torch

from torch_atalla.compiler.capture.triton_kernels import triton_kernel
from torch_atalla.compiler.linearize.partition import segments_of
from torch_atalla.compiler.lower.views import STORAGE_VIEWS, is_view
from torch_atalla.compiler.program.sizes import is_symbolic
from torch_atalla.driver.dtypes import CODES

aten = torch.ops.aten
Node = torch.fx.Node
_LAZY = (aten._conj.default, aten._neg_view.default)


@dataclass
class Region:
    """A part of a graph that is compiled as one program."""

    nodes: list[Node]  # of the whole graph
    inputs: list[Node] = field(default_factory=list)  # of the whole graph, except updated placeholders
    updates: list[tuple[Node, Node]] = field(default_factory=list)  # a placeholder and its new value
    results: list[Node] = field(default_factory=list)

    def module(self, root: torch.nn.Module) -> torch.fx.GraphModule:
        """Build the region's graph. Placeholders keep the nodes' names; updated values come first among the results."""
        graph, copies = torch.fx.Graph(), dict[Node, Node]()
        for node in (*self.inputs, *(place for place, _ in self.updates)):
            if node.op == "get_attr":
                copies[node] = graph.get_attr(str(node.target))
            else:
                copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
            value = node.meta.get("val")
            if has_lazy_bits(value):  # the caller resolves them
                copies[node].meta["val"] = value.resolve_conj().resolve_neg()
        for node in self.nodes:
            copies[node] = graph.node_copy(node, lambda arg: copies[arg])
        graph.output(tuple(copies[node] for node in (*(value for _, value in self.updates), *self.results)))
        return torch.fx.GraphModule(root, graph)


@dataclass
class Split:
    """The order of execution: regions, and single nodes of the whole graph."""

    steps: list[Region | Node]
    updates: list[tuple[Node, Node]]  # not in a region: copied at the end


def split(graph: torch.fx.Graph, eager: Collection[Node], updates: list[tuple[Node, Node]]) -> Split:
    """Split a graph. The nodes in `eager` and arithmetic on sizes are in no region."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    outside = {node for node in nodes if (node in eager or _is_size(node)) and node.target is not operator.getitem}
    for node in nodes:
        if node.target is operator.getitem and (node.args[0] in outside or _is_size(node)):
            outside.add(node)  # an item is where its source is
    segments = segments_of(nodes, outside)
    steps: list[Region | Node] = []
    left = list(updates)
    for segment in segments:
        launches = any(not is_free(node) for node in segment.nodes)
        if not segment.native or not launches:
            steps += segment.nodes
            continue
        region = Region(segment.nodes)
        steps.append(region)
        inside = set(segment.nodes)
        for place, value in updates:
            if value in inside and all(user in inside for user in place.users) and not is_scalar_elsewhere(place):
                region.updates.append((place, value))
                left.remove((place, value))
    for step in steps:
        if isinstance(step, Region):
            _connect(step, {value for _, value in left})
    return Split(steps, left)


def _connect(region: Region, copied: Collection[Node]) -> None:
    """Set the inputs and results of a region. `copied` are values that are copied to a placeholder at the end."""
    inside = set(region.nodes)
    places = {place for place, _ in region.updates}
    read = dict.fromkeys(arg for node in region.nodes for arg in node.all_input_nodes if arg not in inside)
    region.inputs = [node for node in read if node not in places]
    wanted = [node for node in region.nodes if node in copied or any(user not in inside for user in node.users)]
    seen: dict[Node, list[Node]] = {}
    for node in wanted:
        seen.setdefault(root_of(node, inside), []).append(node)
    region.results = [
        views[0] if len(views) == 1 and _covers(views[0], root) else root
        for root, views in seen.items()
        if root in inside  # the others are views of an input
    ]


def _covers(view: Node, root: Node) -> bool:
    """Return whether `view` is the root itself, or a view that has each of its elements exactly once."""
    if view is root:
        return True
    a, b = view.meta["val"], root.meta["val"]
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return False
    if has_lazy_bits(a) or has_lazy_bits(b):
        return False
    numbers = (*a.shape, *a.stride(), *b.shape)
    return all(type(n) is int for n in numbers) and a.numel() == b.numel() and 0 not in a.stride()


def root_of(node: Node, inside: Collection[Node]) -> Node:
    """Return the base of a chain of views: the first node that is not a view, or that is outside of the region."""
    while node in inside and is_view_node(node):
        node = node.args[0]  # type: ignore[assignment]
    return node


def is_view_node(node: Node) -> bool:
    """Return whether a node is a view of its first argument. An item of a multi-output view is a view too.

    Conjugates and negatives are views by a bit: outside of a region they stay so, and results keep the bit.
    """
    if node.target is operator.getitem:
        source = node.args[0]
        return isinstance(source, Node) and is_view_node(source)
    target: Any = node.target
    view = isinstance(target, torch._ops.OpOverload) and (is_view(target) or target in _LAZY)
    return view and isinstance(node.args[0], Node)


def is_free(node: Node) -> bool:
    """Return whether a node needs no launch."""
    return is_view_node(node) or node.target is operator.getitem or _is_size(node)


def _is_size(node: Node) -> bool:
    value = node.meta.get("val")
    return is_symbolic(value) or isinstance(value, (int, float))


def has_lazy_bits(value: Any) -> TypeGuard[torch.Tensor]:
    """Return whether a value is a tensor whose memory holds the conjugates or the negatives of its elements."""
    return isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg())


def may_be_input(node: Any) -> bool:
    """Return whether a value is an argument of the graph, a view of one, or one with new elements in its memory."""
    while is_view_node(node) or node.target in STORAGE_VIEWS:
        node = node.args[0]
    return node.op != "call_function"


def is_scalar_elsewhere(node: Node) -> bool:
    """Return whether a node is a zero-dimensional CPU tensor, which ops accept beside the device's tensors."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.ndim == 0


def reason_for(node: Node, device: torch.device) -> str | None:
    """Return why a node can never be part of a region, or None if its lowering decides."""
    if node.target is operator.getitem or _is_size(node):
        return None
    if (kernel := triton_kernel(node)) is not None:
        return f"launches the Triton kernel {kernel} with sizes that differ from call to call"
    if not isinstance(node.target, torch._ops.OpOverload):
        return "calls a function of Python's" if callable(node.target) else "is no op"
    if node.target._schema.is_mutable:
        return "writes to its arguments"
    if node.target in STORAGE_VIEWS and may_be_input(node.args[0]):
        return "reads the memory behind an argument, whose storage offset differs from call to call"
    if node.target in STORAGE_VIEWS and any(has_lazy_bits(arg.meta.get("val")) for arg in node.all_input_nodes):
        return "reads the memory behind a tensor with lazy bits, which a region gets as a copy"
    read = (arg for arg in node.all_input_nodes if arg.op != "get_attr" and not is_scalar_elsewhere(arg))
    for what, value in (("gives", node), *(("reads", arg) for arg in read)):
        for tensor in tensors_of(value):
            if tensor.device != device:
                return f"{what} a tensor on {tensor.device}"
            if tensor.dtype not in CODES:
                return f"{what} a tensor of {tensor.dtype}, which programs cannot hold"
    if not tensors_of(node):
        return "gives no tensor"
    return None


def tensors_of(node: Node) -> list[torch.Tensor]:
    """Return the tensors of a node's value."""
    leaves = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
