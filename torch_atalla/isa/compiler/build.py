# SPDX-License-Identifier: BSD-3-Clause
"""From a module to a network of Atalla code, and running one on the engine."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...export.capture import Captured, capture
from ...export.ir import LinearProgram
from ...export.linearize import linearize
from ...export.partition import partition
from ...export.passes import run_passes
from ...export.support import support_table
from ..engine import Code, Result, Stats, run
from ..program import Program
from .channels_last import channels_innermost
from .network import Network, NoProgramError, Port, compile_network

ALIGN = 4096


@dataclass
class CompiledNetwork:
    """What `compile_model` gives: each stage's result."""

    captured: Captured
    program: LinearProgram
    network: Network
    code: Program

    def run(self, inputs: Sequence[torch.Tensor], **options: Any) -> Run:
        """On an engine with DRAM of its own. options: of torch_atalla.isa.run (profile, timing, max_packets)."""
        return run_network(self.network, self.code, inputs, **options)


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
    captured = capture(program, args, kwargs, support)
    if captured.states:
        raise NoProgramError(f"no Atalla program for mutable buffers: {', '.join(captured.states)}")
    dynamic = [node.name for node in captured.graph.nodes if _is_dynamic(node.meta.get("val"))]
    if dynamic:
        raise NoProgramError(f"no Atalla program for sizes that the call determines: node {dynamic[0]}")
    run_passes(captured, fold="all", epilogue=True, exact=False)
    channels_innermost(captured)
    linear = linearize(captured, partition(captured, support), support)
    network = compile_network(linear)
    return CompiledNetwork(captured, linear, network, network.code())


def _is_dynamic(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and any(not isinstance(size, int) for size in value.shape)


def to_bfloat16(value: Any) -> Any:
    """Floating-point tensors in bfloat16, everything else as it is."""
    return value.to(torch.bfloat16) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def run_network(network: Network, code: Program | Code, inputs: Sequence[torch.Tensor], **options: Any) -> Run:
    """One launch. `inputs` are CPU tensors in the order of the network's ports."""
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
    memory[constants] = bytes(network.constants)
    memory[table] = network.table(constants, arena, table, ports)
    for port, tensor in zip(network.inputs, inputs):
        memory[ports[port.region]] = port_bytes(port, tensor)
    result = run(code, memory, args=(table,), dram_bytes=place + ALIGN, **options)
    outputs = []
    for port in network.outputs:
        raw = torch.from_numpy(result.memory(ports[port.region], port.nbytes)).view(port.dtype)
        outputs.append(torch.as_strided(raw, port.sizes, port.strides, port.offset))
    return Run(outputs, result.stats, result)


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
