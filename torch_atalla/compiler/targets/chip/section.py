# SPDX-License-Identifier: BSD-3-Clause
"""The code section of a network."""

from __future__ import annotations

from collections.abc import Sequence

from torch_atalla.isa.profile import CallSite
from torch_atalla.isa.program import Program
from torch_atalla.loadable.file.code_section import CodeSection, MethodCode, Relocation
from torch_atalla.loadable.file.format import Region

from ...linearize.partition import source_of
from .build import CompiledNetwork
from .network import Network


def call_sites(compiled: CompiledNetwork) -> list[CallSite]:
    """Function, graph node and source line of each call."""
    sources = {node.name: source_of(node) for node in compiled.graph.nodes}
    calls = compiled.network.image.calls
    return [CallSite(call.function, call.comment, sources.get(call.comment, "")) for call in calls]


def of_network(
    network: Network, code: Program, method: int = 0, states: Sequence[str] = (), constants: int = 0
) -> CodeSection:
    """states: the file's mutable buffers in their order. constants: bytes of those that stand before the network's."""
    words, found = network.image.table_words()
    places: dict[str, tuple[Region, int, int]] = {"table": (Region.TABLE, 0, 0)}
    places |= {port.region: (Region.INPUT, i, 0) for i, port in enumerate(network.inputs)}
    places |= {port.region: (Region.OUTPUT, i, 0) for i, port in enumerate(network.outputs)}
    places |= {port.region: (Region.STATE, states.index(name), 0) for name, (port, _) in network.states.items()}
    places |= {name: (Region.ARENA, 0, offset) for name, offset in network.arena_offsets.items()}
    places |= {name: (Region.CONSTANTS, 0, constants + offset) for name, offset in network.constant_offsets.items()}
    relocations: list[Relocation] = []
    for word, address in found:
        region, index, offset = places[address.region]
        relocations.append((word, region, index, offset + address.offset))
    encoded = code.encode().tobytes()
    record = MethodCode(method, encoded, words, relocations, network.arena_bytes)
    return CodeSection([record], bytes(network.constants))
