# SPDX-License-Identifier: BSD-3-Clause
"""From a module to a network of Atalla code, and running one on the engine."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...export.capture import Captured, capture, export_module
from ...export.ir import LinearProgram
from ...export.linearize import linearize
from ...export.partition import partition
from ...export.passes import run_passes
from ...export.support import support_table
from ..engine import Code, Result, Stats, run
from ..program import Program
from .channels_last import channels_innermost
from .network import SLACK, Network, NoProgramError, Port, compile_network

ALIGN = 4096


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

    def check(
        self,
        inputs: Sequence[torch.Tensor] | None = None,
        expected: Sequence[torch.Tensor] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        """Runs the code, and compares every stored value with what the graph computes.

        inputs: CPU tensors in the order of the ports; by default the program's example inputs, or random numbers from
        `seed`. expected: outputs of another engine for these inputs; by default those of the exported program on the
        CPU. Raises ExportError, which names the first graph node whose value differs by more than rounding explains
        (noise.py has the bound).
        """
        from .check import check_network

        check_network(self, inputs, expected, seed)


@dataclass
class Run:
    outputs: list[torch.Tensor]
    stats: Stats
    result: Result = field(repr=False)


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
    if captured.states:
        raise NoProgramError(f"no Atalla program for mutable buffers: {', '.join(captured.states)}")
    dynamic = [node.name for node in captured.graph.nodes if _is_dynamic(node.meta.get("val"))]
    if dynamic:
        raise NoProgramError(f"no Atalla program for sizes that the call determines: node {dynamic[0]}")
    run_passes(captured, fold="all", epilogue=True, exact=False)
    graph = _snapshot(captured.graph)
    constants = {name: constant.tensor for name, constant in captured.constants.items()}
    channels_innermost(captured)
    linear = linearize(captured, partition(captured, support), support)
    network = compile_network(linear)
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


@dataclass
class Placed:
    """A network in a DRAM of its own: what lies where."""

    memory: dict[int, bytes]
    regions: dict[str, int]  # first bytes of the constants, temporaries and ports
    table: int
    dram_bytes: int
    written: list[tuple[int, int]]  # first bytes and numbers of bytes of what the program may write

    def output(self, port: Port, read: Callable[[int, int], np.ndarray]) -> torch.Tensor:
        if port.nbytes == 0:
            return torch.empty_strided(port.sizes, port.strides, dtype=port.dtype)
        raw = torch.from_numpy(read(self.regions[port.region], port.nbytes)).view(port.dtype)
        return torch.as_strided(raw, port.sizes, port.strides, port.offset)


def place_network(network: Network, inputs: Sequence[torch.Tensor], fill: int = 0) -> Placed:
    """`inputs` are CPU tensors in the order of the network's ports. fill: the byte that unwritten memory holds."""
    memory: dict[int, bytes] = {}
    place = ALIGN

    def reserve(nbytes: int) -> int:
        nonlocal place
        address, place = place, (place + nbytes + 2 * ALIGN - 1) // ALIGN * ALIGN
        return address

    if len(inputs) != len(network.inputs):
        raise ValueError(f"expected {len(network.inputs)} inputs, got {len(inputs)}")
    constants, arena = reserve(len(network.constants)), reserve(network.arena_bytes)
    table = reserve(network.image.table_bytes())
    ports = {port.region: reserve(port.nbytes) for port in (*network.inputs, *network.outputs)}
    if fill:
        memory[0] = bytes([fill]) * (place + ALIGN)
    memory[constants] = bytes(network.constants)
    memory[table] = network.table(constants, arena, table, ports)
    for port, tensor in zip(network.inputs, inputs):
        memory[ports[port.region]] = port_bytes(port, tensor)
    regions = ports | {name: constants + offset for name, offset in network.constant_offsets.items()}
    regions |= {name: arena + offset for name, offset in network.arena_offsets.items()}
    written = [(arena, network.arena_bytes - SLACK)]
    written += [(ports[port.region], port.nbytes) for port in network.outputs]
    return Placed(memory, regions, table, place + ALIGN, written)


def run_network(network: Network, code: Program | Code, inputs: Sequence[torch.Tensor], **options: Any) -> Run:
    """One launch. `inputs` are CPU tensors in the order of the network's ports."""
    placed = place_network(network, inputs)
    result = run(code, placed.memory, args=(placed.table,), dram_bytes=placed.dram_bytes, **options)
    return Run([placed.output(port, result.memory) for port in network.outputs], result.stats, result)


def port_bytes(port: Port, tensor: torch.Tensor) -> bytes:
    """The bytes of an input as the program expects them. ValueError for other sizes or another dtype."""
    if tuple(tensor.shape) != port.sizes or tensor.dtype is not port.dtype:
        raise ValueError(
            f"input {port.name}: expected {port.dtype} of {port.sizes}, got {tensor.dtype} of {tuple(tensor.shape)}"
        )
    raw = torch.zeros(port.nbytes // tensor.dtype.itemsize, dtype=tensor.dtype)
    for dim, stride in enumerate(port.strides):  # where all places are one
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    torch.as_strided(raw, tensor.shape, port.strides, port.offset).copy_(tensor)
    return raw.view(torch.uint8).numpy().tobytes()
