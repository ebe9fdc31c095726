# SPDX-License-Identifier: BSD-3-Clause
"""The code section of a network."""

from __future__ import annotations

from collections.abc import Sequence

from torch_atalla.isa.profile import CallSite
from torch_atalla.isa.program import Program
from torch_atalla.loadable.file.code_section import CodeSection, MethodCode, Relocation
from torch_atalla.loadable.file.format import Region

from ...linearize.partition import source_of
from ...program.ir import LinearProgram
from .build import CompiledNetwork
from .decisions import call_instructions
from .network import Network


def call_sites(compiled: CompiledNetwork) -> list[CallSite]:
    """Function, graph node and source line of each call."""
    sources = {node.name: source_of(node) for node in compiled.graph.nodes}
    calls = compiled.network.image.calls
    return [CallSite(call.function, call.comment, sources.get(call.comment, "")) for call in calls]


def of_network(network: Network, code: Program) -> CodeSection:
    """The code of a file without mutable buffers that has only this method."""
    return CodeSection([method_code(network, code.encode().tobytes())], bytes(network.constants))


def method_code(
    network: Network,
    code: bytes,
    *,
    method: int = 0,
    states: Sequence[str] = (),
    constants: int = 0,
    symbols: tuple[int, ...] = (),
    program: LinearProgram | None = None,
) -> MethodCode:
    """program: the method's launches, which the calls name. states: the file's mutable buffers in their order.
    constants: bytes of those that stand before the network's. symbols: the values of the method's symbols that the
    network is for."""
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
    calls = list[int]()
    if program is not None:
        for call, instruction in zip(network.image.calls, call_instructions(program, network), strict=True):
            calls += (network.image.functions[call.function].address, call.core, instruction)
    divided = network.image.cores > 1
    return MethodCode(method, code, words, relocations, network.arena_bytes, symbols, divided, tuple(calls))
