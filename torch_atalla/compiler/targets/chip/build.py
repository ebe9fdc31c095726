# SPDX-License-Identifier: BSD-3-Clause
"""From a module to a network of Atalla code."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_atalla.isa.program import Program

from ...capture.capture import Captured, capture, export_module
from ...linearize.linearize import linearize
from ...linearize.partition import partition
from ...passes.graph import run_passes
from ...program.ir import LinearProgram
from ...program.support import support_table
from .channels_last import channels_innermost
from .generate import compile_network
from .network import Network, NoProgramError
from .place import Run, run_network
from .ports import same_layout, separate_ports


@dataclass
class CompiledNetwork:
    """What `compile_model` gives: each stage's result."""

    captured: Captured
    program: LinearProgram
    network: Network
    code: Program
    exported: torch.export.ExportedProgram = field(repr=False)
    graph: torch.fx.Graph = field(repr=False)  # after the passes, before layouts change
    constants: dict[str, torch.Tensor] = field(repr=False)  # of that graph

    def run(self, inputs: Sequence[torch.Tensor], **options: Any) -> Run:
        """On an engine with DRAM of its own. options: of torch_atalla.isa.run (profile, timing, max_packets)."""
        return run_network(self.network, self.code, inputs, **options)


def compile_model(
    program: torch.export.ExportedProgram | torch.nn.Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    convert: bool = False,
) -> CompiledNetwork:
    """Compiles a model whose numbers are bfloat16.

    convert: convert a module's parameters, and floating-point example inputs, to bfloat16 first (a copy of it). Raises
    NoProgramError for the first op without an Atalla program.
    """
    if convert:
        if not isinstance(program, torch.nn.Module):
            raise TypeError(f"convert=True: expected a Module, got {type(program).__name__}; export it in bfloat16")
        program = copy.deepcopy(program).to(torch.bfloat16)
        args, kwargs = torch.utils._pytree.tree_map(to_bfloat16, (tuple(args or ()), dict(kwargs or {})))
    support = support_table()
    exported = export_module(program, args, kwargs)
    captured = capture(exported, support=support)
    for constant in captured.constants.values():
        if constant.kind == "parameter" and constant.tensor.dtype.itemsize > 2 and constant.tensor.is_floating_point():
            raise NoProgramError(
                f"no Atalla program for the parameter {constant.fqn} of {constant.tensor.dtype}; expected bfloat16 "
                "(convert the model to bfloat16)"
            )
    if captured.states:
        raise NoProgramError(f"no Atalla program for mutable buffers: {', '.join(captured.states)}")
    dynamic = [node.name for node in captured.graph.nodes if _is_dynamic(node.meta.get("val"))]
    if dynamic:
        raise NoProgramError(f"no Atalla program for sizes that the call determines: node {dynamic[0]}")
    run_passes(captured, fold="all", epilogue=True, exact=False)
    graph = _snapshot(captured.graph)
    constants = {name: constant.tensor for name, constant in captured.constants.items()}
    channels_innermost(captured)
    linear = separate_ports(linearize(captured, partition(captured, support), support))
    network = compile_network(linear)
    for port, result in zip(network.outputs, captured.results, strict=True):
        if same_layout(port.sizes, port.strides, result.stride()):
            port.strides = tuple(result.stride())  # those of dimensions of one element are free
    return CompiledNetwork(captured, linear, network, network.code(), exported, graph, constants)


def _snapshot(graph: torch.fx.Graph) -> torch.fx.Graph:
    """A copy whose nodes keep their names, also those that fx would not give."""
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    result = torch.fx.Graph()
    result.output(result.graph_copy(graph, copied))
    for node, twin in copied.items():
        twin.name = node.name
    return result


def _is_dynamic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(not isinstance(size, int) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def to_bfloat16(value: Any) -> Any:
    """Floating-point tensors in bfloat16, everything else as it is."""
    return value.to(torch.bfloat16) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
