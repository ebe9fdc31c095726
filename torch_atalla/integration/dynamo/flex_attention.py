# SPDX-License-Identifier: BSD-3-Clause
"""flex_attention on the device: upstream's reference in eager mode, a decomposition of it in compiled graphs.

In a captured graph, each higher-order op is one node with the caller's score function as a submodule. This module
replaces the node by the ATen ops of upstream's dense reference, which are then lowered like any other ops.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torch_atalla.compiler.capture.decompositions import eager_decompositions, without_python_kernels

_OPS = "torch._higher_order_ops.flex_attention"
# Backward op: number of arguments before the captured tensors, and of results before their gradients.
_BUFFERS, _PARTS_BEFORE_BUFFERS = 12, 3

aten = torch.ops.aten


def register() -> None:
    """Add the device to those that upstream's device check accepts."""
    module = sys.modules["torch.nn.attention.flex_attention"]
    original: Callable[..., None] = module._validate_device  # type: ignore[attr-defined]

    @functools.wraps(original)
    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "atalla":
            original(query, key, value)

    module._validate_device = validate_device  # type: ignore[attr-defined]


def decompose_flex_attention(graph_module: torch.fx.GraphModule) -> None:
    """Replace all flex_attention nodes of a graph, in place."""
    ops = sys.modules.get(_OPS)
    if ops is None:
        return
    references: dict[Any, Callable[..., Any]] = {
        ops.flex_attention: ops.sdpa_dense,  # type: ignore[attr-defined]
        ops.flex_attention_backward: ops.sdpa_dense_backward,  # type: ignore[attr-defined]
    }
    found = [node for node in graph_module.graph.nodes if node.target in references]
    for node in found:
        _inline(graph_module, node, references[node.target])
    if found:
        graph_module.graph.eliminate_dead_code()
        graph_module.recompile()


def _inline(graph_module: torch.fx.GraphModule, node: torch.fx.Node, reference: Callable[..., Any]) -> None:
    graph = graph_module.graph
    leaves, structure = pytree.tree_flatten((node.args, node.kwargs))
    given = list(dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, torch.fx.Node) and "val" in leaf.meta))

    wanted = _with_gradients(node)

    def call(*values: Any) -> Any:
        of = dict(zip(given, values))

        def value(leaf: Any) -> Any:
            if not isinstance(leaf, torch.fx.Node):
                return leaf
            return of[leaf] if leaf in of else getattr(graph_module, str(leaf.target))

        args, kwargs = pytree.tree_unflatten([value(leaf) for leaf in leaves], structure)
        with torch.no_grad():
            return reference(*args, **kwargs)

    examples = [source.meta["val"] for source in given]
    mode = torch._guards.detect_fake_mode(examples)
    for number, source in enumerate(given):
        if source in wanted:  # the reference computes no gradients of other tensors
            examples[number] = examples[number].detach().requires_grad_()
    with mode or torch._subclasses.FakeTensorMode(), without_python_kernels(composites=True):
        table: dict[Any, Callable[..., Any]] = {
            **eager_decompositions(),
            torch.ops.flex_lib.zeros_and_scatter.default: _zeros_and_scatter,
        }
        traced = make_fx(call, decomposition_table=table)(*examples)
    _without_mutation(traced.graph)
    copies = dict(zip(traced.graph.find_nodes(op="placeholder"), given))
    with graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "get_attr":
                name = f"{node.name}_{inner.target}"
                setattr(graph_module, name, getattr(traced, str(inner.target)))
                copies[inner] = graph.create_node("get_attr", name)
                copies[inner].meta = dict(inner.meta)
            elif inner.op == "call_function":
                copies[inner] = graph.node_copy(inner, lambda arg: copies[arg])
    results = pytree.tree_map(lambda arg: copies.get(arg, arg), traced.graph.output_node().args[0])
    _replace(graph, node, results)


def _zeros_and_scatter(shape: list[int], indices: list[torch.Tensor], vals: torch.Tensor) -> torch.Tensor:
    """Decomposition of upstream's op that sums the gradient of a captured tensor."""
    zeros = torch.zeros(shape, device=vals.device, dtype=vals.dtype)
    return aten.index_put(zeros, list(indices), vals, True)


def _without_mutation(graph: torch.fx.Graph) -> None:
    """Replace the reference's copies into empty strided tensors, and its fresh constants, by functional ops."""
    for node in graph.find_nodes(op="call_function", target=aten.lift_fresh_copy.default):
        node.replace_all_uses_with(node.args[0])
    for node in graph.find_nodes(op="call_function", target=aten.copy_.default):
        target: Any = node.args[0]
        node.target = aten.copy.default
        target.replace_all_uses_with(node, delete_user_cb=lambda user, copy=node: user > copy)


def _with_gradients(node: torch.fx.Node) -> list[torch.fx.Node]:
    """Return the captured tensors of a backward node's score function whose gradients are used."""
    if len(node.args) < _BUFFERS + 1 or "backward" not in str(node.target):
        return []
    buffers: Any = node.args[_BUFFERS]
    parts = [user for user in node.users if user.args[1] == _PARTS_BEFORE_BUFFERS]
    return [buffers[user.args[1]] for part in parts for user in part.users if user.target is operator.getitem]


def _replace(graph: torch.fx.Graph, node: torch.fx.Node, results: Any) -> None:
    """Replace the items of a node, which may be nested tuples, by the results, and erase the node."""
    for user in list(node.users):
        part = results[user.args[1]]
        if isinstance(part, torch.fx.Node):
            user.replace_all_uses_with(part)
            graph.erase_node(user)
        else:
            _replace(graph, user, part)
    graph.erase_node(node)
