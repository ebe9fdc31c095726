# SPDX-License-Identifier: BSD-3-Clause
"""The instruction table, as tools/codegen/isa.py resolved it from csrc/sim/isa/isa.yaml."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

from torch_atalla.driver.paths import GENERATED

PACKET_BYTES = 20
SLOTS = 4
SLOT_BYTES = 5

# Registers of all three files in one numbering, for dependence tests and dumps: x0 is 0, v0 is 256, m0 is 512.
REGISTER_BASE = {"x": 0, "v": 256, "m": 512}


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction.

    kind: `x`, `v`, `m` (a register), `imm`, `branch` (bytes from this packet, a multiple of 4), `jump` (bytes).
    access: `r`, `w` or `rw` for registers, empty otherwise.
    low, high: the least and greatest value; step: values are multiples of it.
    parts: (bit of the stored value, bit of the slot, width); the stored value is (value >> scale) - bias.
    pair: the bit of the instruction's `group` with which a register is a pair: itself and the next one.
    """

    name: str
    kind: str
    access: str
    optional: bool
    low: int
    high: int
    step: int
    scale: int
    bias: int
    signed: bool
    parts: tuple[tuple[int, int, int], ...]
    pair: int

    @property
    def register(self) -> bool:
        """Whether the operand is a register."""
        return self.kind in REGISTER_BASE


@dataclass(frozen=True, slots=True)
class Spec:
    """One instruction of the chip: everything that the table says about it.

    reads, writes: the memory it touches, `dram`, `scratchpad` or empty. merges: inactive lanes keep the destination.
    """

    name: str
    opcode: int
    format: str
    operands: tuple[Operand, ...]
    used_bits: int
    unit: str
    latency: str
    merges: bool
    faults: bool
    reads: str
    writes: str
    text: str

    @property
    def is_branch(self) -> bool:
        """Instructions that stand in slot 0 only."""
        return self.unit == "control"

    def index(self, operand: str) -> int:
        """Return the position of an operand in assembly. Raises KeyError with the names of all operands."""
        for i, found in enumerate(self.operands):
            if found.name == operand:
                return i
        names = ", ".join(o.name for o in self.operands) or "none"
        raise KeyError(f"{self.name} has no operand `{operand}`; its operands: {names}")


@dataclass(frozen=True, slots=True)
class Table:
    by_name: dict[str, Spec]
    by_opcode: dict[int, Spec]
    units: dict[str, int]  # instructions of one packet that it takes
    ports: dict[str, int]  # distinct registers that a packet may read
    cycles: dict[str, tuple[int, int]]  # latency class -> cycles to the result, and of the unit, on the built-in chip

    def __iter__(self):
        return iter(self.by_name.values())


def _operand(entry: dict) -> Operand:
    plain = {name: entry[name] for name in ("name", "kind", "access", "optional", "scale", "bias", "signed", "pair")}
    parts = tuple(map(tuple, entry["parts"]))
    return Operand(low=entry["min"], high=entry["max"], step=1 << entry["scale"], parts=parts, **plain)


@lru_cache
def table() -> Table:
    """The table; FileNotFoundError with advice if the package was not built."""
    path = GENERATED / "isa.json"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; run `python -m tools.codegen.isa` or build the package")
    found = json.loads(path.read_text())
    plain = ("name", "opcode", "format", "used_bits", "unit", "latency", "merges", "faults", "reads", "writes", "text")
    specs = [
        Spec(operands=tuple(map(_operand, entry["operands"])), **{key: entry[key] for key in plain})
        for entry in found["instructions"]
    ]
    units = {name: unit["per_packet"] for name, unit in found["units"].items()}
    cycles = {name: (latency, occupancy) for name, (latency, occupancy) in found["cycles"].items()}
    by_name = {s.name: s for s in specs}
    return Table(by_name, {s.opcode: s for s in specs}, units, found["ports"], cycles)


def register_name(number: int) -> str:
    """`x5`, `v0` or `m3` of a number in the common numbering."""
    kind = "x" if number < 256 else "v" if number < 512 else "m"
    return f"{kind}{number - REGISTER_BASE[kind]}"
