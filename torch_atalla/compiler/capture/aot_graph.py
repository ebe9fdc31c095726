# SPDX-License-Identifier: BSD-3-Clause
"""A graph that AOTAutograd made, for torch.compile: all that a call gives is an input, parameters included."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.leaves import Leaf

from ..program.call_arguments import arguments_of
from ..program.size_expressions import find_symbols
from ..program.sizes import Symbols
from .capture import Captured, Constant, check_dtype, name_the_host, on_host

aten = torch.ops.aten


def capture_graph(graph_module: torch.fx.GraphModule, updates: Sequence[str] = ()) -> Captured:
    """The graph's first results are new values of the inputs that `updates` names; all results are tensors.

    Of a SymInt among the inputs that no tensor has as a size, the program has an input [size, 0], without bytes, named
    by `size_port`. Raises ExportError for dtypes that the chip does not store, and for sizes that no input determines.
    """
    graph = graph_module.graph
    for node in graph.find_nodes(op="placeholder"):
        if is_tensor(node):
            check_dtype(node)
    tensors = [node for node in graph.find_nodes(op="placeholder") if is_tensor(node) and node.name not in updates]
    tensors += _add_size_ports(graph, tensors)
    returned: Any = graph.output_node().args[0]
    results = returned[len(updates) :]
    _fix_strides(tensors, results)
    name_the_host(graph)
    _name_attention(graph)
    return Captured(
        graph_module=graph_module,
        constants=_constants(graph_module),
        inputs=[Leaf(node.name) for node in tensors],
        outputs=[Leaf(node.name) for node in results],
        in_spec=pytree.tree_structure([None] * len(tensors)),
        out_spec=pytree.tree_structure([None] * len(results)),
        model="",
        updates=list(updates),
        symbols=_symbols([(node.name, node.meta["val"]) for node in tensors]),
        results=[node.meta["val"] for node in results],
    )


def size_port(node: torch.fx.Node) -> str:
    """The name of the input that carries the value of a SymInt."""
    return f"{node.name}_as_size"


def _add_size_ports(graph: torch.fx.Graph, tensors: list[torch.fx.Node]) -> list[torch.fx.Node]:
    known = {size.node.expr for node in tensors for size in node.meta["val"].shape if isinstance(size, torch.SymInt)}
    added: list[torch.fx.Node] = []
    placeholders = graph.find_nodes(op="placeholder")
    for node in placeholders:
        number = node.meta.get("val")
        if not isinstance(number, torch.SymInt) or number.node.expr in known:
            continue
        known.add(number.node.expr)
        if not number.node.expr.is_Symbol or number.node.shape_env.bound_sympy(number.node.expr).lower < 0:
            continue  # what needs it will say so
        mode = detect_fake_mode([item.meta["val"] for item in tensors]) or FakeTensorMode(
            shape_env=number.node.shape_env
        )
        with graph.inserting_after((*placeholders, *added)[-1]), mode:  # inputs are numbered in the graph's order
            added.append(graph.placeholder(size_port(node)))
            added[-1].meta["val"] = torch.empty((number, 0), dtype=torch.uint8)
    return added


def _name_attention(graph: torch.fx.Graph) -> None:
    """Attention that eager mode launches as one kernel under the name that the compiler knows, unless its statistics
    are asked for."""
    for node in graph.find_nodes(
        op="call_function", target=aten._scaled_dot_product_fused_attention_overrideable.default
    ):
        if any(user.args[1] != 0 for user in node.users):
            continue
        given = tuple(arguments_of(node).values())
        query, key = given[:2]
        grouped = query.meta["val"].shape[1] != key.meta["val"].shape[1]
        options = {"scale": node.kwargs.get("scale"), "enable_gqa": grouped}
        for user in list(node.users):
            with graph.inserting_before(node):
                whole = graph.call_function(aten.scaled_dot_product_attention.default, given[:6], options)
            whole.meta = dict(user.meta)
            user.replace_all_uses_with(whole)
            graph.erase_node(user)
        graph.erase_node(node)


def is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _constants(graph_module: torch.fx.GraphModule) -> dict[str, Constant]:
    """Tensors that tracing found in the code, such as `torch.tensor([1, 2])`."""
    constants = {}
    moved: dict[int, torch.UntypedStorage] = {}
    for node in graph_module.graph.find_nodes(op="get_attr"):
        held = attrgetter(str(node.target))(graph_module)
        if not isinstance(held, torch.Tensor):
            raise ExportError(f"{node.name} is a {type(held).__name__}; expected a tensor")
        with unset_fake_temporarily():
            constants[node.name] = Constant(on_host(held.detach(), moved), "constant")
    return constants


def _symbols(tensors: Collection[tuple[str, torch.Tensor]]) -> Symbols:
    if all(isinstance(number, int) for _, value in tensors for number in (*value.shape, *value.stride())):
        return Symbols()
    symbols = find_symbols({}, list(tensors))
    symbols.checked_by_caller = True
    return symbols


def _fix_strides(tensors: Collection[torch.fx.Node], results: Collection[torch.fx.Node]) -> None:
    """Specialise strides of inputs that results have, too: a program has one stride, unless sizes determine it."""
    sizes = {symbol for node in tensors for size in node.meta["val"].shape for symbol in _free_symbols(size)}
    for node in results:
        for number in (*node.meta["val"].shape, *node.meta["val"].stride()):
            if _free_symbols(number) - sizes and not free_unbacked_symbols(number):  # those depend on data
                int(number)  # adds a guard


def _free_symbols(number: int | torch.SymInt) -> set[Any]:
    return set(number.node.expr.free_symbols) if isinstance(number, torch.SymInt) else set()
