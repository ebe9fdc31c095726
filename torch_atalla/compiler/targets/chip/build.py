# SPDX-License-Identifier: BSD-3-Clause
"""From a module to a network of Atalla code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_atalla.isa.program import Program

from ...capture.capture import Captured, capture, export_module
from ...capture.narrow import narrowed
from ...linearize.partition import source_of
from ...program.ir import LinearProgram
from ..functional.pipeline import Lowered, Options, lower_captured
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

    convert: convert the parameters, and floating-point example inputs, to bfloat16 first (in a copy). Raises
    NoProgramError, which lists the ops without an Atalla program.
    """
    exported = export_module(program, args, kwargs)
    exported = narrowed(exported) if convert else exported
    return compile_lowered(lower_captured(capture(exported), Options(optimize="fast", code=True)), exported)


def compile_lowered(lowered: Lowered, exported: torch.export.ExportedProgram) -> CompiledNetwork:
    """The code of a program that was lowered with the option `code`."""
    captured = lowered.captured
    assert lowered.graph is not None
    for constant in captured.constants.values():
        if constant.kind == "parameter" and constant.tensor.is_floating_point() and constant.tensor.dtype.itemsize > 2:
            raise NoProgramError(
                f"no Atalla program for the parameter {constant.fqn} of {constant.tensor.dtype}; expected bfloat16 "
                "(convert the model to bfloat16)"
            )
    dynamic = [node.name for node in captured.graph.nodes if _is_dynamic(node.meta.get("val"))]
    if dynamic:
        raise NoProgramError(f"no Atalla program for sizes that the call determines: node {dynamic[0]}")
    linear = separate_ports(lowered.program)
    network = compile_network(linear, {node.name: source_of(node) for node in lowered.graph.nodes})
    for port, result in zip(network.outputs, captured.results, strict=True):
        if same_layout(port.sizes, port.strides, result.stride()):
            port.strides = tuple(result.stride())  # those of dimensions of one element are free
    return CompiledNetwork(captured, linear, network, network.code(), exported, lowered.graph, lowered.constants)


def _is_dynamic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(not isinstance(size, int) for size in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
