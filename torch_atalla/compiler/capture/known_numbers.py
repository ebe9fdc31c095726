# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that a program reads from constants: item() of a table of sizes is a number before the program runs, and so
are the places where a mask is true.

torch.export knows such a number no better than one that depends on data, and every size made of it is dynamic.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import operator
from collections.abc import Callable, Collection
from typing import Any

import sympy
import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from torch_atalla.loadable.errors import ExportError

from ..program.call_arguments import arguments_of
from ..program.sizes import is_symbolic

aten = torch.ops.aten

_READS = {aten.item.default, aten._local_scalar_dense.default}
_RANGES = {aten.sym_constrain_range.default, aten.sym_constrain_range_for_size.default}
_CONSTANT = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
# In place, but not of values.
_ALIASES: dict[Any, Any] = {aten.detach_.default: aten.detach.default, aten.lift_fresh.default: aten.alias.default}
Node = torch.fx.Node


def with_known_numbers(
    program: torch.export.ExportedProgram, states: Collection[str] = ()
) -> torch.export.ExportedProgram:
    """The program with numbers in place of what it reads from constants, or the same object if it reads none.

    states: buffers that other methods write, which are no constants. Raises ExportError for an assertion about such a
    number that does not hold.
    """
    values = _Values(program, states)
    reads = {node: value for node in program.graph.nodes if (value := values.read(node)) is not None}
    masks = {node: found for node in program.graph.nodes if (found := values.masks(node))}
    sized = {node: known for node in program.graph.nodes if (known := values.sized(node)) is not None}
    if not reads and not masks and not sized:
        return program
    graph = torch.fx.Graph()
    mapped: dict[Node, Node] = {}
    graph.output(graph.graph_copy(program.graph, mapped))
    graph.output_node().meta.update(program.graph.output_node().meta)
    for node, value in reads.items():
        _put(mapped[node], value)
    _fold_numbers(graph)
    changed = copy.copy(program)
    for node, places in masks.items():
        _index_by_places(changed, mapped[node], {mapped[mask]: value for mask, value in places.items()})
    for node, tensor in sized.items():
        mapped[node].replace_all_uses_with(_constant(changed, mapped[node], tensor))
    changed._graph_module = torch.fx.GraphModule(program.graph_module, graph)
    changed._graph_module.meta.update(program.graph_module.meta)
    return changed


def stored_tensor(program: torch.export.ExportedProgram, name: str) -> torch.Tensor:
    """A parameter, buffer or constant of a program."""
    return (program.state_dict if name in program.state_dict else program.constants)[name]


class _Values:
    """Evaluates nodes that depend on constants only, on the CPU, when they are asked for."""

    def __init__(self, program: torch.export.ExportedProgram, states: Collection[str]) -> None:
        self.program = program
        written = written_buffers(program) | set(states)
        self.constants = {
            spec.arg.name: spec.target
            for spec in program.graph_signature.input_specs
            if spec.kind in _CONSTANT and spec.target is not None and spec.target not in written
        }
        self.known: dict[Node, Any] = {}  # a tensor, several of an op that returns them, or None
        self.numbers: dict[Any, Any] = {}  # symbols of numbers that were read
        # Nodes that depend on memory that the program writes in place.
        self.written: set[Node] = _written(program)
        for node in program.graph.nodes:
            if not self.written.isdisjoint(node.all_input_nodes):
                self.written.add(node)

    def masks(self, node: Node) -> dict[Node, torch.Tensor]:
        """The masks among what a node is indexed by, as far as they are constants."""
        if node.target is not aten.index.Tensor:
            return {}
        found: dict[Node, torch.Tensor] = {}
        indices: Any = node.args[1]
        for mask in indices:
            is_mask = isinstance(mask, Node) and mask.meta["val"].dtype == torch.bool
            if is_mask and mask not in self.written and (value := self.value(mask)) is not None:
                found[mask] = value
        return found

    def sized(self, node: Node) -> torch.Tensor | None:
        """The value of a node made of constants, whose size torch.export takes for one that depends on data."""
        made = node.meta.get("val")
        if node.op != "call_function" or not isinstance(made, torch.Tensor) or node in self.written:
            return None
        return None if all(type(size) is int for size in made.shape) else self.value(node)

    def read(self, node: Node) -> bool | int | float | None:
        """The number that a node reads from constants; None if it does not. What depends on memory that the
        program writes in place is no constant."""
        if node.target not in _READS or node in self.written:
            return None
        value = self.value(node.all_input_nodes[0])
        if value is None:
            return None
        number, made = value.item(), node.meta.get("val")
        if isinstance(made, torch.SymInt) and (symbol := made.node.expr).is_symbol:
            self.numbers[symbol] = sympy.Integer(number)
        return number

    def value(self, node: Node) -> Any:
        if isinstance(made := node.meta.get("val"), torch.SymInt):
            return self.size(made)
        if node not in self.known:
            self.known[node] = self.constant(node) if node.op == "placeholder" else self.computed(node)
        return self.known[node]

    def size(self, size: torch.SymInt) -> int | None:
        """A size that consists of numbers read before. It may be that of a tensor that depends on the inputs."""
        found = size.node.shape_env.replace(size.node.expr.xreplace(self.numbers)).xreplace(self.numbers)
        return int(found) if found.is_number else None

    def constant(self, node: Node) -> torch.Tensor | None:
        if node.name not in self.constants:
            return None
        return stored_tensor(self.program, self.constants[node.name]).detach().cpu()

    def computed(self, node: Node) -> Any:
        target: Any = _ALIASES.get(node.target, node.target)
        if target is operator.getitem:
            values = self.value(node.all_input_nodes[0])
            return None if values is None else values[node.args[1]]
        if not isinstance(target, torch._ops.OpOverload) or _is_random(target, node):
            return None
        values = {arg: self.value(arg) for arg in node.all_input_nodes}
        if any(value is None for value in values.values()) or not _are_tensors(node.meta.get("val")):
            return None
        with torch.no_grad():
            result = target(*map_arg(node.args, values.__getitem__), **map_arg(node.kwargs, values.__getitem__))
        return result if _are_tensors(result) else None


def _is_random(target: torch._ops.OpOverload, node: Node) -> bool:
    """Dropout is not, in evaluation: torch.export of 2.15 keeps the op."""
    if torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    return arguments_of(node).get("train") is not False


def _are_tensors(value: Any) -> bool:
    leaves = value if isinstance(value, (tuple, list)) else [value]
    return all(isinstance(leaf, torch.Tensor) for leaf in leaves)


def _index_by_places(program: torch.export.ExportedProgram, node: Node, masks: dict[Node, torch.Tensor]) -> None:
    """Puts constants of the program, the places where each mask is true, for masks of known values."""
    before: Any = node.args[1]
    indices: list[Any] = []
    for index in before:
        known = index in masks
        indices += [_constant(program, node, places) for places in masks[index].nonzero().T] if known else [index]
    node.update_arg(1, indices)


def _constant(program: torch.export.ExportedProgram, node: Node, value: torch.Tensor) -> Node:
    """A placeholder in the graph of node for a new constant of the program."""
    names = {item.name for item in node.graph.nodes}
    name = next(name for i in itertools.count() if (name := f"c_places_{i}") not in names)
    specs = list(program.graph_signature.input_specs)
    first = next((i for i, spec in enumerate(specs) if spec.kind not in _CONSTANT), len(specs))
    specs.insert(first, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name), name))
    with node.graph.inserting_before(list(node.graph.nodes)[first]):
        placeholder = node.graph.placeholder(name)
    placeholder.meta["val"] = node.meta["val"].fake_mode.from_tensor(value.contiguous(), static_shapes=True)
    program._graph_signature = dataclasses.replace(program.graph_signature, input_specs=specs)
    program._constants = {**program.constants, name: value.contiguous()}
    return placeholder


def _memory(node: Node) -> set[Node]:
    """The nodes that made the memory that a value lies in: those from which only views lead to the node."""
    found: set[Node] = set()
    seen, waiting = {node}, [node]
    while waiting:
        item = waiting.pop()
        sources = [source for source in _shared(item) if source not in seen]
        if not _shared(item):
            found.add(item)
        waiting += sources
        seen.update(sources)
    return found


def _shared(node: Node) -> list[Node]:
    """The inputs whose memory the result of a node may be."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return node.all_input_nodes
    if any(result.alias_info is not None for result in target._schema.returns):
        return _arguments(node, lambda argument: argument.alias_info is not None)
    # An op that PyTorch composes of others may return its input, such as dropout in evaluation.
    return node.all_input_nodes if target._can_decompose() else []


def _arguments(node: Node, is_meant: Callable[[Any], bool]) -> list[Node]:
    """The nodes among the arguments whose place in the schema is meant."""
    target: Any = node.target
    given = zip(target._schema.arguments, arguments_of(node).values())
    leaves = tree_leaves([value for argument, value in given if is_meant(argument)])
    return [leaf for leaf in leaves if isinstance(leaf, Node)]


def written_buffers(program: torch.export.ExportedProgram) -> set[str]:
    """Buffers that the program may write, in place or, without mutation, as results of its signature."""
    signature, nodes = program.graph_signature, {node.name for node in _written(program)}
    named = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target is not None}
    return {*signature.buffers_to_mutate.values(), *(named[name] for name in nodes & named.keys())}


def _written(program: torch.export.ExportedProgram) -> set[Node]:
    """The nodes that made the memory that the program writes in place."""
    writing = [node for node in program.graph.nodes if _writes(node)]
    written = [_arguments(node, lambda a: a.alias_info is not None and a.alias_info.is_write) for node in writing]
    return set().union(*(_memory(node) for nodes in written for node in nodes))


def _writes(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable and target not in _ALIASES


def _put(node: Node, value: Any) -> None:
    node.replace_all_uses_with(value)
    node.graph.erase_node(node)


def _fold_numbers(graph: torch.fx.Graph) -> None:
    """Computes arithmetic on numbers, and checks assertions about them."""
    for node in list(graph.nodes):
        leaves = tree_leaves((node.args, node.kwargs))
        if node.op != "call_function" or not leaves or any(isinstance(leaf, Node) for leaf in leaves):
            continue
        if node.target is aten._assert_scalar.default:
            condition, message = node.args
            if not condition:
                raise ExportError(f"an assertion of the program does not hold for its constants: {message}")
            graph.erase_node(node)
        elif node.target in _RANGES:
            graph.erase_node(node)
        elif is_symbolic(node.meta.get("val")):
            _put(node, node.target(*node.args, **node.kwargs))
