# SPDX-License-Identifier: BSD-3-Clause
"""The virtual instruction set: Atalla instructions on an unlimited number of registers, in blocks and counted loops.

A `Builder` records one function. Registers are virtual until `allocate` places them, packets appear in `schedule`.
Memory is ordered by regions: a kernel names what an access touches, and two accesses are kept in order when they touch
the same region, one of them writes, and their keys do not tell them apart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from torch_atalla.isa.geometry import LANES

from .machine import describe


class Reg:
    """A scalar (x), vector (v) or mask (m) register; `number` is None until it is allocated.

    high: of the lower register of a pair, the one behind it, whose `low` this is.
    """

    __slots__ = ("kind", "number", "name", "high", "low")

    def __init__(self, kind: str, number: int | None = None, name: str = "") -> None:
        self.kind, self.number, self.name = kind, number, name
        self.high: Reg | None = None
        self.low: Reg | None = None

    @property
    def parts(self) -> tuple[Reg, ...]:
        """The registers of a pair, or the only one."""
        return (self,) if self.high is None else (self, self.high)

    def __repr__(self) -> str:
        return f"{self.kind}{'?' if self.number is None else self.number}"


X0, V0, M0 = Reg("x", 0), Reg("v", 0), Reg("m", 0)
LINK, DESCRIPTOR, NEXT = Reg("x", 1), Reg("x", 2), Reg("x", 3)
ROWS = tuple([X0] + [Reg("x", 224 + row) for row in range(1, LANES)])  # the driver sets x224+r to r
TABLE = Reg("x", 223)  # the driver's place in the table of calls
CORE, CORES = Reg("x", 222), Reg("x", 224)  # which core this is, and how many run the program
FIRST_FREE_SCALAR, LAST_FREE_SCALAR = 4, 222


@dataclass(frozen=True)
class Access:
    """One access to memory: what (a region's name), whether it writes, and a key that tells disjoint accesses apart."""

    region: str
    write: bool
    key: object = None


class Label:
    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class Inst:
    __slots__ = ("access", "name", "operands", "spec")

    def __init__(self, name: str, operands: dict, access: tuple[Access, ...] = ()) -> None:
        self.name, self.operands, self.access = name, operands, access
        self.spec = describe(name)

    def reads(self) -> list[Reg]:
        """Registers whose value matters. A merging instruction under m0 overwrites every lane."""
        found = self.registers(self.spec.reads)
        if self.spec.merges and self.operands.get("mask", M0) is not M0:
            found += self.writes()
        return found

    def writes(self) -> list[Reg]:
        return self.registers(self.spec.writes)

    def registers(self, names: tuple[str, ...]) -> list[Reg]:
        """Of these operands, with the second registers of pairs."""
        found = [self.operands[name] for name in names if name in self.operands]
        group = self.operands.get("group", 0)
        if group:  # the pair of v0 is zeros, and has no second register
            pairs = [self.operands[name].high for name in names if self.spec.pairs.get(name, 0) & group]
            found += [high for high in pairs if high is not None]
        return found


@dataclass
class LoopBegin:
    label: Label


@dataclass
class LoopEnd:
    label: Label


Item = Inst | Label | LoopBegin | LoopEnd


def f32_bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def bf16_bits(value: float) -> int:
    """The bits of `value` rounded to BF16, as the upper half of an FP32."""
    bits = f32_bits(value)
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7FC00000
    return (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000


class Builder:
    """Records the instructions of one function. Methods named as instruction families return the written register."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[Item] = []
        self.parameters: list[str] = []
        self._loops = 0

    # -- registers ---------------------------------------------------------------------------------------------------
    def x(self) -> Reg:
        return Reg("x")

    def v(self) -> Reg:
        return Reg("v")

    def pair(self) -> Reg:
        """Two vector registers, one behind the other; the second is `high` of the first."""
        low, high = Reg("v"), Reg("v")
        low.high, high.low = high, low
        return low

    def vector(self, pair: bool) -> Reg:
        return self.pair() if pair else self.v()

    def m(self) -> Reg:
        return Reg("m")

    # -- instructions ------------------------------------------------------------------------------------------------
    def emit(self, name: str, *values: object, access: tuple[Access, ...] = (), **more: object) -> None:
        """Operands in assembly order, or by name."""
        inst = Inst(name, {}, access)
        operands = dict(zip((o.name for o in inst.spec.operands), values)) | more
        inst.operands = {key: value for key, value in operands.items() if value is not None}
        self.items.append(inst)

    def s(self, name: str, *values: object) -> Reg:
        """A scalar instruction into a new register."""
        out = self.x()
        self.emit(name, out, *values)
        return out

    def vec(self, name: str, *values: object, mask: Reg | None = None) -> Reg:
        """A vector instruction into a new register; under a mask the other lanes are undefined."""
        out = self.v()
        self.emit(name, out, *values, mask=mask)
        return out

    def mask(self, bits: Reg) -> Reg:
        """The lanes whose bits are set."""
        out = self.m()
        self.emit("mv.stm", out, bits)
        return out

    def cmp(self, name: str, a: Reg, b: Reg, lanes: Reg | None = None) -> Reg:
        """A comparison's mask. lanes: a mask behind which it is 0."""
        out = self.m() if lanes is None else self.mask(X0)
        self.emit(name, out, a, b, mask=lanes)
        return out

    def li(self, value: int) -> Reg:
        """A 32-bit integer constant in a new register."""
        if value == 0:
            return X0
        out = self.x()
        self.set(out, value)
        return out

    def set(self, out: Reg, value: int) -> None:
        value &= 0xFFFFFFFF
        signed = value - (1 << 32) if value >> 31 else value
        if -(1 << 24) <= signed < 1 << 24:
            self.emit("li.s", out, signed)
        else:
            self.emit("lui.s", out, value >> 7)
            if value & 0x7F:
                self.emit("addi.s", out, out, value & 0x7F)

    def lf(self, value: float) -> Reg:
        """A constant as the bits of an FP32, rounded to BF16."""
        return self.li(bf16_bits(value))

    def mov(self, out: Reg, source: Reg) -> None:
        self.emit("addi.s", out, source, 0)

    def exchange(self, one: Reg, other: Reg) -> None:
        swap = self.s("addi.s", one, 0)
        self.mov(one, other)
        self.mov(other, swap)

    # -- memory ------------------------------------------------------------------------------------------------------
    def load_row(
        self, base: Reg, row: Reg, sid: int, region: str, key: object = None, cols: int = LANES, out: Reg | None = None
    ) -> Reg:
        out = self.v() if out is None else out
        self.emit("vreg.ld", out, base, row, sid, cols, access=(Access(region, False, key),))
        return out

    def store_row(self, value: Reg, base: Reg, row: Reg, sid: int, region: str, key: object = None) -> None:
        self.emit("vreg.st", value, base, row, sid, LANES, access=(Access(region, True, key),))

    def tile_load(self, scratch: Reg, dram: Reg, meta: Reg, region: str) -> None:
        self.emit("scpad.ld", scratch, dram, meta, access=(Access("dram", False), Access(region, True)))

    def tile_store(
        self, scratch: Reg, dram: Reg, meta: Reg, region: str, memory: str = "dram", key: object = None
    ) -> None:
        self.emit("scpad.st", scratch, dram, meta, access=(Access(region, False, key), Access(memory, True, key)))

    def push(self, vector: Reg, pair: bool = False) -> None:
        """pair: 64 weights, of both registers."""
        self.emit("lw.vi", vector, int(pair) or None, access=(Access("weights", True),))

    def row(self, out: Reg, vector: Reg, partial: Reg = V0, group: int = 0) -> None:
        """group: 1 if `vector` is a pair, 2 if `out` and `partial` are, 3 if all are."""
        self.emit("gemm.vv", out, vector, partial, group or None, access=(Access("weights", False),))

    # -- parameters --------------------------------------------------------------------------------------------------
    def parameter(self, name: str) -> Reg:
        """A word of the descriptor, loaded where this is called (at the head of the function)."""
        if name not in self.parameters:
            self.parameters.append(name)
        out = self.x()
        out.name = name
        offset = 4 * (self.parameters.index(name) + HEADER_WORDS)
        self.emit("lw.s", out, offset, DESCRIPTOR, access=(Access("descriptor", False),))
        return out

    # -- control -----------------------------------------------------------------------------------------------------
    @contextmanager
    def loop(self, count: Reg | int, skip_empty: bool = False) -> Iterator[Reg]:
        """Runs the body `count` times, count >= 1 (or 0 with skip_empty). Gives the index, counted from 1."""
        label, end = Label(f"loop{self._loops}"), Label(f"end{self._loops}")
        self._loops += 1
        bound = self.li(count) if isinstance(count, int) else count
        index = self.x()
        self.emit("li.s", index, 1)
        if skip_empty:
            self.emit("blt.s", bound, index, end, 0)
        self.items += [LoopBegin(label), label]
        yield index
        self.emit("blt.s", index, bound, label, 1)
        self.items += [LoopEnd(label), end]

    @contextmanager
    def walk(
        self, count: Reg | int, *moves: tuple[Reg, Reg | int], skip_empty: bool = False
    ) -> Iterator[tuple[Reg, ...]]:
        """A loop with a new pointer for each (start, step), which moves by its step from pass to pass. Behind the loop
        the pointers are where the next pass would have them."""
        pointers = tuple(self.s("addi.s", start, 0) for start, _ in moves)
        with self.loop(count, skip_empty):
            yield pointers
            for pointer, (_, step) in zip(pointers, moves):
                self.emit("addi.s" if isinstance(step, int) else "add.s", pointer, pointer, step)

    @contextmanager
    def unless(self, branch: str, a: Reg, b: Reg) -> Iterator[None]:
        """The body runs unless `a branch b` holds."""
        end = Label(f"skip{self._loops}")
        self._loops += 1
        self.emit(branch, a, b, end, 0)
        self.items.append(Label())
        yield
        self.items.append(end)

    def digest(self) -> str:
        """Equal for functions of the same instructions, whatever their registers and labels are called."""
        numbers: dict[object, int] = {}

        def text(value: object) -> str:
            if isinstance(value, Label) or (isinstance(value, Reg) and value.number is None):
                return f"{type(value).__name__}{numbers.setdefault(value, len(numbers))}"
            return repr(value)

        lines = [*self.parameters]
        for item in self.items:
            if isinstance(item, Inst):
                lines.append(" ".join([item.name, *(f"{key}={text(x)}" for key, x in item.operands.items())]))
            else:
                lines.append(f"{type(item).__name__} {text(item if isinstance(item, Label) else item.label)}")
        return sha256("\n".join(lines).encode()).hexdigest()[:12]

    def ret(self) -> None:
        self.emit("jalr.s", X0, LINK, 0)


HEADER_WORDS = 1  # of a descriptor: the function's address
