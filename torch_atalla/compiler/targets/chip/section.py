# SPDX-License-Identifier: BSD-3-Clause
"""The code section of a network."""

from __future__ import annotations

from torch_atalla.isa.program import Program
from torch_atalla.loadable.file.code_section import CodeSection, MethodCode, Relocation
from torch_atalla.loadable.file.format import Region

from .network import Network


def of_network(network: Network, code: Program, method: int = 0) -> CodeSection:
    words, found = network.image.table_words()
    places: dict[str, tuple[Region, int, int]] = {"table": (Region.TABLE, 0, 0)}
    places |= {port.region: (Region.INPUT, i, 0) for i, port in enumerate(network.inputs)}
    places |= {port.region: (Region.OUTPUT, i, 0) for i, port in enumerate(network.outputs)}
    places |= {name: (Region.ARENA, 0, offset) for name, offset in network.arena_offsets.items()}
    places |= {name: (Region.CONSTANTS, 0, offset) for name, offset in network.constant_offsets.items()}
    relocations: list[Relocation] = []
    for word, address in found:
        region, index, offset = places[address.region]
        relocations.append((word, region, index, offset + address.offset))
    encoded = code.encode().tobytes()
    record = MethodCode(method, encoded, words, relocations, network.arena_bytes)
    return CodeSection([record], bytes(network.constants))
