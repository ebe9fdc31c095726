# SPDX-License-Identifier: BSD-3-Clause
"""The code section of a network."""

from __future__ import annotations

from torch_atalla.isa.program import Program
from torch_atalla.loadable.file.code_section import ARENA, CONSTANTS, PORTS, TABLE, CodeSection

from .network import Network


def of_network(network: Network, code: Program) -> CodeSection:
    words, found = network.image.table_words()
    ports = [*network.inputs, *network.outputs]
    numbers = {port.region: PORTS + i for i, port in enumerate(ports)}
    relocations = []
    for word, address in found:
        if address.region == "table":
            relocations.append((word, TABLE, address.offset))
        elif address.region in network.constant_offsets:
            relocations.append((word, CONSTANTS, network.constant_offsets[address.region] + address.offset))
        elif address.region in network.arena_offsets:
            relocations.append((word, ARENA, network.arena_offsets[address.region] + address.offset))
        else:
            relocations.append((word, numbers[address.region], address.offset))
    return CodeSection(
        code.encode().tobytes(),
        words,
        relocations,
        [port.nbytes for port in ports],
        len(network.inputs),
        bytes(network.constants),
        network.arena_bytes,
    )
