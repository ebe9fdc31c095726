# SPDX-License-Identifier: BSD-3-Clause
"""What the code generator needs of the instruction table: operands, units, ports, latencies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from torch_atalla.isa.geometry import LANES
from torch_atalla.isa.instruction import Instruction
from torch_atalla.isa.table import PACKET_BYTES, SLOTS, Operand
from torch_atalla.isa.table import table as instruction_table

VECTORS, MASKS = 256, 16

# Cycles to the result and cycles that the unit is busy, by the table's latency classes: the chip's default timing. They
# guide the order of instructions; the hardware interlocks, so that another timing changes speed and not results.
LATENCY = {
    "integer": (1, 1),
    "multiply": (3, 1),
    "divide": (66, 66),
    "bf_add": (5, 1),
    "bf_multiply": (4, 1),
    "bf_root": (11, 11),
    "load": (4, 1),
    "store": (1, 1),
    "move": (1, 1),
    "vector_add": (5, 2),
    "vector_multiply": (4, 2),
    "vector_exp": (6, 2),
    "vector_reduce": (20, 2),
    "vector_load": (15, 1),
    "vector_store": (2, 1),
    "push": (1, 1),
    "row": (45, 1),
    "tile": (1, 1),
}


@dataclass(frozen=True)
class Description:
    """One instruction as the scheduler sees it."""

    name: str
    operands: tuple[Operand, ...]
    reads: tuple[str, ...]  # operands that are registers and are read
    writes: tuple[str, ...]
    unit: str
    latency: int
    occupancy: int
    merges: bool


@cache
def describe(name: str) -> Description:
    spec = instruction_table().by_name[name]
    latency, occupancy = LATENCY[spec.latency]
    return Description(
        name,
        spec.operands,
        tuple(o.name for o in spec.operands if "r" in o.access),
        tuple(o.name for o in spec.operands if "w" in o.access),
        spec.unit,
        latency,
        occupancy,
        spec.merges,
    )


@cache
def unit_limit(unit: str) -> int:
    return instruction_table().units[unit]


@cache
def ports() -> dict[str, int]:
    return instruction_table().ports


__all__ = [
    "LANES",
    "LATENCY",
    "MASKS",
    "PACKET_BYTES",
    "SLOTS",
    "VECTORS",
    "Description",
    "Instruction",
    "describe",
    "ports",
    "unit_limit",
]
