# SPDX-License-Identifier: BSD-3-Clause
"""The Atalla code of a method: its calls with their cycles and stalls, and the listing of each function."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from torch_atalla.isa.disassembler import disassemble
from torch_atalla.isa.profile import reason_text
from torch_atalla.isa.program import PACKET_BYTES
from torch_atalla.loadable.code_machine import CodeMachine
from torch_atalla.loadable.file.code_section import MethodCode

MOST_LISTED = 400  # packets of a function; a longer listing says more about unrolling than about the function


@dataclass(frozen=True)
class Call:
    """One call of a function. node: number of the graph node; None for what the driver does. cycles include `stalls`,
    which maps a reason to its cycles. source: the line of Python."""

    function: str
    node: int | None
    source: str
    packets: int
    cycles: int
    stalls: dict[str, int]
    joules: float


@dataclass(frozen=True)
class Function:
    """The listing of a function, one packet per line; labels have lines of their own. packets: all, listed or not."""

    packets: int
    listing: str


@dataclass(frozen=True)
class Code:
    """One run of the code. units: busy cycles by unit. functions: by name."""

    cycles: int
    joules: float
    packets: int
    instructions: int
    units: dict[str, int]
    calls: list[Call]
    functions: dict[str, Function]


def read_code(path: str | os.PathLike, method: str, code: MethodCode, nodes: Mapping[str, int]) -> Code:
    """Run the code of a method on random inputs. nodes: numbers of the graph nodes by name."""
    machine = CodeMachine(path, method=method)
    addresses = {site.function: address for address, site in machine.calls}
    profile = machine.profile()
    calls = [
        Call(
            call.site.function,
            nodes.get(call.site.node),
            call.site.source,
            call.packets,
            call.cycles,
            {reason_text(name): n for name, n in sorted(call.stall_cycles.items(), key=lambda item: -item[1])},
            call.joules,
        )
        for call in profile.calls
    ]
    stats = profile.stats
    units = {unit: n for unit, n in sorted(stats.unit_cycles.items(), key=lambda item: -item[1]) if n}
    functions, joules = _functions(code, addresses), stats.energy.joules
    return Code(stats.cycles, joules, stats.packets, stats.instructions, units, calls, functions)


def _functions(code: MethodCode, addresses: Mapping[str, int]) -> dict[str, Function]:
    program = code.program()
    lines: list[list[str]] = [[]]  # those of each packet, labels before it
    for line in disassemble(program).splitlines():
        lines[-1].append(line)
        if line.startswith(" "):
            lines.append([])
    starts = [*sorted({address // PACKET_BYTES for address in addresses.values()}), len(program)]
    end = dict(zip(starts, starts[1:]))
    found = {}
    for name, address in addresses.items():
        first = address // PACKET_BYTES
        last = end[first]
        shown = [line for packet in lines[first : min(last, first + MOST_LISTED)] for line in packet]
        found[name] = Function(last - first, "\n".join(shown))
    return found
