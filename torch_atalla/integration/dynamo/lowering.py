# SPDX-License-Identifier: BSD-3-Clause
"""Lowering of an AOTAutograd graph to a callable: regions run as programs, the other nodes one by one."""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.graph import _BoxedCodeGen

from torch_atalla.compiler.capture.aot_graph import capture_graph, is_tensor, size_port
from torch_atalla.compiler.capture.triton_kernels import lower_triton_kernels
from torch_atalla.compiler.program.support import qualified_name
from torch_atalla.compiler.targets.functional.pipeline import compile_captured
from torch_atalla.driver.chip_identity import chip_identity
from torch_atalla.loadable.errors import ExportError, UnsupportedOpsError

from . import cache
from .compiled_region import CompiledRegion, check_interface, emit_program
from .debug import NAME, DebugFolder, log_compiled, write_region
from .flex_attention import decompose_flex_attention
from .graph_text import NoKey, graph_text, size_facts
from .options import CompileOptions
from .regions import (
    Node,
    Region,
    Split,
    has_lazy_bits,
    is_scalar_elsewhere,
    is_view_node,
    reason_for,
    split,
    tensors_of,
)
from .size_guards import Conditions, InvalidCondition, SizeFacts

log = logging.getLogger(NAME)
aten = torch.ops.aten
_MOST_SPECIALISATIONS = 8  # attempts to compile a region


def compile_graph(
    graph_module: torch.fx.GraphModule, inputs: Sequence[Any], options: CompileOptions
) -> Callable[[list[Any]], Any]:
    """Compile a graph to a function that takes the list of its inputs, clears it and returns the tuple of its outputs.

    `inputs` are example inputs.
    """
    device = device_of(graph_module.graph)
    if device is None:
        return _boxed(graph_module)
    for node in graph_module.graph.find_nodes(op="call_function", target=aten._assert_tensor_metadata.default):
        graph_module.graph.erase_node(node)  # Dynamo's guards check the arguments; tracing has checked the rest
    decompose_flex_attention(graph_module)
    lower_triton_kernels(graph_module)
    debug = DebugFolder()
    debug.source(graph_module, inputs)
    result = _Lowering(graph_module, device, options, debug).run()
    debug.result(result)
    return _boxed(result)


@lru_cache(maxsize=4096)
def warn_once(line: str) -> None:
    log.info("runs eagerly: %s", line)


def device_of(graph: torch.fx.Graph) -> torch.device | None:
    """Return the first atalla device among the graph's tensors, or None."""
    devices = (tensor.device for node in graph.nodes for tensor in tensors_of(node))
    return next((device for device in devices if device.type == "atalla"), None)


def _boxed(graph_module: torch.fx.GraphModule) -> Callable[[list[Any]], Any]:
    graph_module.graph.set_codegen(_BoxedCodeGen())
    graph_module.recompile()
    function = graph_module.forward
    function.__func__._boxed_call = True  # type: ignore[attr-defined]
    return function


@dataclass
class _Lowering:
    """Lowering of one graph."""

    source: torch.fx.GraphModule
    device: torch.device
    options: CompileOptions
    debug: DebugFolder
    eager: dict[Node, str] = field(default_factory=dict)  # node -> why it runs eagerly

    def run(self) -> torch.fx.GraphModule:
        updates = self.take_updates()
        key = self.key("graph", self.source, size_facts(self.source.graph), str(updates), str(self.device))
        nodes = [node for node in self.source.graph.nodes if node.op == "call_function"]
        self.eager = {node: reason for node in nodes if (reason := reason_for(node, self.device)) is not None}
        known = cache.find(key, lambda facts, _: read_reasons(facts)) if key is not None else None
        if known is not None:
            self.eager |= {node: known[node.name] for node in nodes if node.name in known}
        while True:
            parts = split(self.source.graph, self.eager, updates)
            compiled = self.compile_regions(parts)
            if compiled is not None:
                break
        if known is None and key is not None:
            cache.put(key, {"eager": {node.name: reason for node, reason in self.eager.items()}})
        self.report(compiled)
        return _Host(self.source, self.device, parts, compiled).build()

    def key(self, kind: str, module: torch.fx.GraphModule, facts: SizeFacts, *others: str) -> str | None:
        """Return the cache key of a graph, or None if it cannot be cached."""
        if not cache.enabled():
            return None
        try:
            text = graph_text(module)
        except NoKey as error:
            log.info("not cached: the graph holds a %s", error)
            return None
        return cache.key_of([kind, text, facts.text, *others, chip_identity(self.device.index), repr(self.options)])

    def report(self, compiled: Sequence[CompiledRegion]) -> None:
        """Log the number of programs, and why nodes run eagerly.

        Raises NotImplementedError if there are eager nodes and fallback is "error".
        """
        lines = [f"{node.name} ({qualified_name(node.target)}): {reason}" for node, reason in self.eager.items()]
        count = f"{len(compiled)} program{'s' * (len(compiled) != 1)}"
        log.info("a graph is compiled as %s; %d of its nodes run eagerly", count, len(lines))
        if lines and self.options.fallback == "error":
            raise NotImplementedError('fallback="error": these nodes are not compiled:\n  ' + "\n  ".join(lines))
        for line in lines:
            warn_once(line)

    def take_updates(self) -> list[tuple[Node, Node]]:
        """Remove the copies into inputs at the end of the graph, and return them as (input, new value)."""
        updates = []
        graph = self.source.graph
        for node in graph.find_nodes(op="call_function", target=aten.copy_.default):
            place, value = node.args[:2]
            if place.op == "placeholder" and not node.users and isinstance(value, Node) and _same_type(place, value):
                updates.append((place, value))
                graph.erase_node(node)
        return updates

    def compile_regions(self, parts: Split) -> list[CompiledRegion] | None:
        """Compile all regions. Return None if a node had no lowering; it has then become eager."""
        compiled: list[CompiledRegion] = []
        for step in parts.steps:
            if isinstance(step, Region):
                try:
                    compiled.append(self.compile_region(step, self.debug.region(len(compiled))))
                except UnsupportedOpsError as error:
                    self.exclude(step, {op.node: op.reason for op in error.ops}, str(error))
                    return None
                except ExportError as error:
                    self.exclude(step, {}, str(error))
                    return None
        return compiled

    def exclude(self, region: Region, reasons: dict[str, str], text: str) -> None:
        found = {node: reasons[node.name] for node in region.nodes if node.name in reasons}
        self.eager |= found or dict.fromkeys(region.nodes, text)

    def compile_region(self, region: Region, folder: Path | None) -> CompiledRegion:
        """Compile one region, or take it from the cache. `folder` is for the debug output of the passes."""
        module, updates = region.module(self.source), [place.name for place, _ in region.updates]
        facts = size_facts(module.graph)
        key = self.key("region", module, facts, *updates)

        def accept(entry: dict[str, Any], data: bytes) -> CompiledRegion | None:
            try:
                if not facts.accept(Conditions(entry.get("guards"))):
                    return None
            except InvalidCondition as error:
                raise cache.InvalidEntry(str(error)) from error
            return self.read_program(data, module, updates)

        best = cache.find(key, accept) if key is not None and folder is None else None
        if best is None:
            best = self.compile_best(module, updates, folder)
            learned = facts.learned()
            if key is not None and learned is not None:
                cache.put(key, {"guards": learned}, best.data)
        write_region(folder, best.program)
        return best

    def read_program(self, data: bytes, module: torch.fx.GraphModule, updates: list[str]) -> CompiledRegion:
        """Load the program of a cache entry. Raises InvalidEntry if it is not a program for this region."""
        try:
            region = CompiledRegion(data, self.device)
            check_interface(region, module.graph, updates)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise cache.InvalidEntry(f"its program: {error}") from error
        return region

    def compile_best(self, module: torch.fx.GraphModule, updates: list[str], folder: Path | None) -> CompiledRegion:
        """Compile a region. If lowering specialises sizes, begin again: the region then has fewer dynamic sizes."""
        for _ in range(_MOST_SPECIALISATIONS):
            facts = size_facts(module.graph)
            try:
                return self.compile_once(module, updates, folder)
            except ExportError:
                if not facts.grown:
                    raise
        return self.compile_once(module, updates, folder)

    def compile_once(self, module: torch.fx.GraphModule, updates: list[str], folder: Path | None) -> CompiledRegion:
        made = []
        with unset_fake_temporarily():
            for number, way in enumerate(self.options.candidates()):
                captured = capture_graph(copy.deepcopy(module), updates)
                compiled = compile_captured(captured, way, dump=None if number else folder)
                log_compiled(compiled)
                made.append(CompiledRegion(emit_program(compiled), self.device))
        return made[0] if len(made) == 1 else min(made, key=lambda region: region.cycles())


def read_reasons(facts: dict[str, Any]) -> dict[str, str]:
    """Return the nodes of a cache entry that run eagerly, with reasons. Raises InvalidEntry if it is damaged."""
    eager = facts.get("eager")
    if not isinstance(eager, dict) or not all(isinstance(reason, str) for reason in eager.values()):
        raise cache.InvalidEntry("expected nodes that run eagerly, with reasons")
    return eager


def _same_type(place: Node, value: Node) -> bool:
    a, b = place.meta["val"], value.meta["val"]
    return not has_lazy_bits(a) and a.dtype == b.dtype and a.shape == b.shape and a.device == b.device


@dataclass
class _Host:
    """Builder of the graph that calls regions and runs the other nodes."""

    source: torch.fx.GraphModule
    device: torch.device
    parts: Split
    compiled: Sequence[CompiledRegion]
    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    copies: dict[Node, Node] = field(default_factory=dict)

    def build(self) -> torch.fx.GraphModule:
        for node in self.source.graph.find_nodes(op="placeholder"):
            self.copies[node] = self.graph.node_copy(node)
        modules = dict(self.source.named_children())
        remaining = iter(enumerate(self.compiled))
        for step in self.parts.steps:
            if isinstance(step, Region):
                number, compiled = next(remaining)
                modules[f"region_{number}"] = compiled
                self.call(f"region_{number}", step, compiled)
            else:
                self.copy(step)
        for place, value in self.parts.updates:
            self.graph.call_function(aten.copy_.default, (self.of(place), self.of(value)))
        self.graph.output(torch.fx.map_arg(self.source.graph.output_node().args[0], self.of))
        self.graph.eliminate_dead_code(lambda node: node.op != "call_function" or not is_view_node(node))
        root = torch.nn.Module()
        for name, module in modules.items():
            root.add_module(name, module)
        for node in self.graph.find_nodes(op="get_attr"):
            if "." not in str(node.target) and not hasattr(root, str(node.target)):
                setattr(root, str(node.target), getattr(self.source, str(node.target)))
        return torch.fx.GraphModule(root, self.graph)

    def of(self, node: Node) -> Node:
        """Return the copy of `node` in the new graph. Views are copied when they are first needed."""
        if node not in self.copies:
            if node.op == "get_attr" or is_view_node(node):
                self.copy(node)
            else:
                raise AssertionError(f"{node} is inside of a region")
        return self.copies[node]

    def copy(self, node: Node) -> None:
        for arg in node.all_input_nodes:
            self.of(arg)
        self.copies[node] = self.graph.node_copy(node, self.of)

    def call(self, name: str, region: Region, compiled: CompiledRegion) -> None:
        given = {node.name: node for node in (*region.inputs, *(place for place, _ in region.updates))}
        given |= {size_port(node): node for node in region.inputs if not is_tensor(node)}
        args = tuple(self.argument(given[name]) for name in compiled.arguments)
        call = self.graph.call_module(name, args)
        for number, node in enumerate(region.results):
            self.copies[node] = self.graph.call_function(operator.getitem, (call, number))
            self.copies[node].meta = dict(node.meta)

    def argument(self, node: Node) -> Node:
        """Return what a region is called with: memory of the device that holds the values themselves."""
        found = self.of(node)
        if has_lazy_bits(node.meta.get("val")):
            found = self.graph.call_function(aten.resolve_conj.default, (found,))
            found = self.graph.call_function(aten.resolve_neg.default, (found,))
        if not is_scalar_elsewhere(node):
            return found
        return self.graph.call_function(aten._to_copy.default, (found,), {"device": self.device})
