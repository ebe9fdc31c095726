# SPDX-License-Identifier: BSD-3-Clause
"""The code section of a network."""

from __future__ import annotations

from torch_atalla.isa.program import Program
from torch_atalla.loadable.file.code_section import ARENA, CONSTANTS, PORTS, TABLE, CodeSection

from .network import Network


def of_network(network: Network, code: Program) -> CodeSection:
    words, found = network.image.table_words()
    ports = [*network.inputs, *network.outputs]
    places = {"table": (TABLE, 0)} | {port.region: (PORTS + i, 0) for i, port in enumerate(ports)}
    places |= {name: (ARENA, offset) for name, offset in network.arena_offsets.items()}
    places |= {name: (CONSTANTS, offset) for name, offset in network.constant_offsets.items()}
    relocations = []
    for word, address in found:
        kind, offset = places[address.region]
        relocations.append((word, kind, offset + address.offset))
    encoded, nbytes, constants = code.encode().tobytes(), [port.nbytes for port in ports], bytes(network.constants)
    return CodeSection(encoded, words, relocations, nbytes, len(network.inputs), constants, network.arena_bytes)
