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
from ...program.assignment import Assignment, assignments, count_assignments
from ...program.ir import LinearProgram
from ...program.layouts import same_layout
from ...schedule.chip_model import ChipModel
from ..functional.pipeline import Lowered, Options, lower_captured
from .fusion import CHIP
from .generate import compile_networks
from .network import Network, NoProgramError
from .place import Run, run_network
from .ports import separate_ports

MOST_ASSIGNMENTS = 1024  # of sizes, each of which has a table of calls in the file


@dataclass
class CompiledNetwork:
    """What `compile_model` gives: each stage's result."""

    captured: Captured
    program: LinearProgram
    network: Network
    code: Program  # networks of one program for several sizes have the same
    exported: torch.export.ExportedProgram = field(repr=False)
    graph: torch.fx.Graph = field(repr=False)  # after the passes, before layouts change
    constants: dict[str, torch.Tensor] = field(repr=False)  # of that graph
    sizes: tuple[int, ...] = ()  # the values of the program's symbols that it is for

    def run(self, inputs: Sequence[torch.Tensor], **options: Any) -> Run:
        """On an engine with DRAM of its own. options: of torch_atalla.isa.run (profile, timing, max_packets)."""
        return run_network(self.network, self.code, inputs, **options)


def compile_model(
    program: torch.export.ExportedProgram | torch.nn.Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    convert: bool = False,
    chip: ChipModel | None = None,
) -> CompiledNetwork:
    """Compiles a model whose numbers are bfloat16.

    chip: among whose cores launches are divided; None: one core runs all.

    convert: convert the parameters, and floating-point example inputs, to bfloat16 first (in a copy). Raises
    NoProgramError, which lists the ops without an Atalla program.
    """
    exported = export_module(program, args, kwargs)
    exported = narrowed(exported) if convert else exported
    lowered = lower_captured(capture(exported), Options(optimize="fast", target=CHIP))
    if lowered.captured.symbols.symbols:
        raise NoProgramError("expected a program of fixed sizes; compile_lowered compiles one for several sizes")
    return compile_lowered(lowered, exported, chip)[0]


def compile_lowered(
    lowered: Lowered, exported: torch.export.ExportedProgram, chip: ChipModel | None = None
) -> list[CompiledNetwork]:
    """The code of a program that was lowered with the option `code`: one network, or one for each of the sizes that a
    call may have, in ascending order, with the same code. chip: as for compile_model."""
    captured = lowered.captured
    assert lowered.graph is not None
    for constant in captured.constants.values():
        if constant.kind == "parameter" and constant.tensor.is_floating_point() and constant.tensor.dtype.itemsize > 2:
            raise NoProgramError(
                f"no Atalla program for the parameter {constant.fqn} of {constant.tensor.dtype}; expected bfloat16 "
                "(convert the model to bfloat16)"
            )
    allowed = _assignments(lowered)
    programs = [separate_ports(assignment.program(lowered.program)) for assignment in allowed]
    sources = {node.name: source_of(node) for node in lowered.graph.nodes}
    texts = [sizes_text(captured, lowered.program, item.values) for item in allowed]
    networks = compile_networks(programs, sources, texts, chip)
    code, compiled = networks[0].code(), []
    for assignment, linear, network in zip(allowed, programs, networks):
        for port, result in zip(network.outputs, captured.results, strict=True):
            strides = tuple(map(assignment.number, result.stride()))
            if same_layout(port.sizes, port.strides, strides):
                port.strides = strides  # those of dimensions of one element are free
        made = (captured, linear, network, code, exported, lowered.graph, lowered.constants, assignment.values)
        compiled.append(CompiledNetwork(*made))
    return compiled


def _assignments(lowered: Lowered) -> list[Assignment]:
    """All sizes that a call may have. Raises NoProgramError if they have no bound, or are too many for one file."""
    symbols, ports = lowered.captured.symbols, lowered.program.inputs
    for symbol in symbols.symbols:
        if not symbol.bounded:
            raise NoProgramError(
                f"no Atalla program for dimension {symbol.dim} of input {ports[symbol.input].name}, which has no upper "
                "bound; expected dynamic_shapes with Dim(..., max=...)"
            )
    count = count_assignments(symbols)
    if count > MOST_ASSIGNMENTS:
        raise NoProgramError(
            f"dynamic_shapes allow {count:,} combinations of sizes; Atalla code is for at most {MOST_ASSIGNMENTS:,}. "
            "Lower the bounds, or let a dimension be a multiple (32 * Dim(...))"
        )
    return assignments(symbols)


def planned(sizes: Sequence[CompiledNetwork]) -> CompiledNetwork:
    """Of compile_lowered's networks, that for the sizes for which memory is planned and the file is written: the
    largest."""
    wanted = tuple(symbol.value for symbol in sizes[0].captured.symbols.symbols)
    return next((item for item in sizes if item.sizes == wanted), sizes[-1])


def checked(sizes: Sequence[CompiledNetwork]) -> list[CompiledNetwork]:
    """Those that saving checks: for the smallest sizes, for those in the middle of all ranges, and `planned`."""
    middle = tuple((symbol.min + symbol.max) // 2 for symbol in sizes[0].captured.symbols.symbols)
    between = next((item for item in sizes if item.sizes == middle), sizes[len(sizes) // 2])
    return list({item.sizes: item for item in (sizes[0], between, planned(sizes))}.values())


def sizes_text(captured: Captured, program: LinearProgram, values: Sequence[int]) -> str:
    """As text, the sizes of those dimensions of inputs that symbols determine."""
    return ", ".join(
        f"dimension {symbol.dim} of {program.inputs[symbol.input].name} {symbol.multiplier * value + symbol.offset}"
        for symbol, value in zip(captured.symbols.symbols, values)
    )
