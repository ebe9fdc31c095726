# SPDX-License-Identifier: BSD-3-Clause
"""A network in a DRAM of its own, and running it there on the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from torch_atalla.isa.engine import Code, Result, Stats, run
from torch_atalla.isa.program import Program

from .network import SLACK, Network, Port

ALIGN = 4096


@dataclass
class Run:
    outputs: list[torch.Tensor]
    stats: Stats
    result: Result = field(repr=False)


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


def place_network(network: Network, inputs: Sequence[torch.Tensor], fill: int = 0, distance: int = 2 * ALIGN) -> Placed:
    """`inputs` are CPU tensors in the order of the network's ports. fill: the byte that unwritten memory holds.
    distance: at least so many bytes lie between two regions, less than a page more."""
    memory: dict[int, bytes] = {}
    place = ALIGN

    def reserve(nbytes: int) -> int:
        nonlocal place
        address, place = place, -(-(place + nbytes + distance - ALIGN) // ALIGN) * ALIGN
        return address

    if len(inputs) != len(network.inputs):
        raise ValueError(f"expected {len(network.inputs)} inputs, got {len(inputs)}")
    constants, arena = reserve(len(network.constants)), reserve(network.arena_bytes)
    table = reserve(network.image.table_bytes())
    states = [port for port, _ in network.states.values()]
    ports = {port.region: reserve(port.nbytes) for port in (*network.inputs, *network.outputs, *states)}
    if fill:
        memory[0] = bytes([fill]) * (place + ALIGN)
    memory[constants] = bytes(network.constants)
    memory[table] = network.table(constants, arena, table, ports)
    for port, tensor in zip(network.inputs, inputs):
        memory[ports[port.region]] = port_bytes(port, tensor)
    for port, first in network.states.values():
        memory[ports[port.region]] = storage_bytes(first, port.nbytes)
    regions = ports | {name: constants + offset for name, offset in network.constant_offsets.items()}
    regions |= {name: arena + offset for name, offset in network.arena_offsets.items()}
    written = [(arena, network.arena_bytes - SLACK)]
    written += [(ports[port.region], port.nbytes) for port in (*network.outputs, *states)]
    return Placed(memory, regions, table, place + ALIGN, written)


def run_network(network: Network, code: Program | Code, inputs: Sequence[torch.Tensor], **options: Any) -> Run:
    """One launch. `inputs` are CPU tensors in the order of the network's ports."""
    placed = place_network(network, inputs)
    options = {"chip": network.chip, **options}
    result = run(code, placed.memory, args=(placed.table,), dram_bytes=placed.dram_bytes, **options)
    return Run([placed.output(port, result.memory) for port in network.outputs], result.stats, result)


def storage_bytes(tensor: torch.Tensor, nbytes: int) -> bytes:
    """All that a dense tensor's strides reach."""
    whole = torch.as_strided(tensor.detach(), (nbytes // tensor.dtype.itemsize,), (1,), tensor.storage_offset())
    return whole.contiguous().view(torch.uint8).numpy().tobytes()


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
