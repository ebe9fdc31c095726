# SPDX-License-Identifier: BSD-3-Clause
"""What the code generator needs of the instruction table: operands, units, ports, latencies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from torch_atalla.isa.table import Operand
from torch_atalla.isa.table import table as instruction_table

VECTORS, MASKS = 256, 16


@dataclass(frozen=True)
class Description:
    """One instruction as the scheduler sees it. Cycles are those of the built-in chip: they guide the order of
    instructions, and since the hardware interlocks, another chip's change speed and not results."""

    name: str
    operands: tuple[Operand, ...]
    reads: tuple[str, ...]  # operands that are registers and are read
    writes: tuple[str, ...]
    unit: str
    latency: int
    occupancy: int
    merges: bool
    pairs: dict[str, int]  # operands that are pairs of registers, with these bits of the operand `group`


@cache
def describe(name: str) -> Description:
    spec = instruction_table().by_name[name]
    latency, occupancy = instruction_table().cycles[spec.latency]
    reads, writes = (tuple(o.name for o in spec.operands if kind in o.access) for kind in "rw")
    pairs = {o.name: o.pair for o in spec.operands if o.pair}
    return Description(name, spec.operands, reads, writes, spec.unit, latency, occupancy, spec.merges, pairs)


@cache
def unit_limit(unit: str) -> int:
    return instruction_table().units[unit]


@cache
def ports() -> dict[str, int]:
    return instruction_table().ports
