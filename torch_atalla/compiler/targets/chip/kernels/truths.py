# SPDX-License-Identifier: BSD-3-Clause
"""Truth values between the caller's bytes and the program's BF16.

No instruction converts bytes. A lane takes two neighbouring bytes as one BF16, whose four patterns are told apart by
comparisons; the array spreads the lanes of such pairs over two rows of the program, or gathers them from two. A tile
that has a byte other than 0 and 1, and all bytes from an odd address, pass through the scalar core one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Access, Reg
from .common import Kernel
from .tiling import ELEMENT, ROW_BYTES, TILE_BYTES, Call, NamedVariant, metadata, pad_rows

PAIRS = 2 * LANES  # truth values of a row of bytes
TILE = LANES * PAIRS
BYTES_SID, NUMBERS_SID = 0, 1
OTHER = 2 * TILE_BYTES  # from one place of a tile to the other, in both scratchpads: two tiles of numbers
# As BF16: the first byte of a pair is true, the second, both.
PATTERNS = ((1.0, 0x0001 << 16), (2.0, 0x0100 << 16), (3.0, 0x0101 << 16))
UNKNOWN = 4.0


@dataclass(frozen=True)
class Truths(NamedVariant):
    """out[i] = in[i] for neighbouring elements in whole rows of 64."""

    kernel = "truths"
    widens: bool  # from bytes
    rows: int  # of bytes, of the tiles


def plan(count: int, widens: bool) -> list[Call]:
    """For the first count // 64 * 64 elements. Addresses: bytes, numbers."""
    calls = []
    for first, passes, rows in ((0, count // TILE, LANES), (count // TILE * TILE, 1, count % TILE // PAIRS)):
        if passes and rows:
            words = {
                "count": passes,
                "rows": rows,
                "meta_bytes": metadata(BYTES_SID, rows, LANES, LANES),
                "meta_numbers": metadata(NUMBERS_SID, rows, LANES, LANES),
            }
            calls.append((Truths(widens, pad_rows(rows)), words, {"bytes": first, "numbers": first}))
    return calls


class _Truths(Kernel):
    v: Truths

    @classmethod
    def scratch_rows(cls, variant: Truths, words: Mapping[str, Any]) -> int:
        return (OTHER + TILE_BYTES) // ROW_BYTES

    def emit(self) -> None:
        b, p = self.b, self.p
        odd = b.s("andi.s", p["bytes"], 1)
        self.row_bytes = b.s("slli.s", p["rows"], 6)  # of the rows of bytes, and of as many rows of numbers
        with b.unless("bne.s", odd, X0):
            self.by_tile()
        with b.unless("beq.s", odd, X0):
            self.by_byte(p["bytes"], p["numbers"], b.s("mul.s", p["count"], self.row_bytes))

    def by_tile(self) -> None:
        b, v, p = self.b, self.v, self.p
        self.units = self.unit_vectors()
        places = {name: b.s("addi.s", X0, 0) for name in ("bytes", "numbers")}
        pointers = {name: b.s("addi.s", p[name], 0) for name in ("bytes", "numbers")}
        load, given = (self.load_bytes, "bytes") if v.widens else (self.load_numbers, "numbers")
        if v.rows < LANES:  # rows that no transfer fills are computed, too
            self.fill_rows(X0, BYTES_SID, "bytes")
        load(places[given], pointers[given])
        with b.loop(p["count"]) as index:
            here, first = ({name: b.s("addi.s", x, 0) for name, x in known.items()} for known in (places, pointers))
            for name, size in (("bytes", 1), ("numbers", ELEMENT)):
                b.emit("add.s", pointers[name], pointers[name], self.k.integer(TILE * size))
                b.emit("xor.s", places[name], places[name], self.k.integer(OTHER))
            with b.unless("bge.s", index, p["count"]):
                load(places[given], pointers[given])
            (self.widen if v.widens else self.narrow)(here, first)

    # -- transfers ----------------------------------------------------------------------------------------------------
    def load_bytes(self, place: Reg, source: Reg) -> None:
        self.b.tile_load(place, source, self.p["meta_bytes"], "bytes")

    def load_numbers(self, place: Reg, source: Reg) -> None:
        b = self.b
        b.tile_load(place, source, self.p["meta_numbers"], "numbers")
        place, source = (b.s("add.s", x, self.row_bytes) for x in (place, source))
        b.tile_load(place, source, self.p["meta_numbers"], "numbers")

    def number_rows(self, place: Reg) -> list[tuple[Reg, Reg]]:
        """Base and row of each row of numbers."""
        upper = self.b.s("add.s", place, self.k.integer(TILE_BYTES))
        return [(place if row < LANES else upper, ROWS[row % LANES]) for row in range(2 * self.v.rows)]

    # -- bytes to numbers ---------------------------------------------------------------------------------------------
    def widen(self, here: dict[str, Reg], first: dict[str, Reg]) -> None:
        b, rows = self.b, self.v.rows
        codes, seconds, odd = [], [], X0
        for row in ROWS[:rows]:
            x = b.load_row(here["bytes"], row, BYTES_SID, "bytes")
            code = b.vec("add.vv", V0, V0)
            b.emit("add.vs", code, V0, self.k(UNKNOWN), mask=b.cmp("mneq.mvs", x, X0))
            for number, pattern in PATTERNS:
                b.emit("add.vs", code, V0, self.k(number), mask=b.cmp("meq.mvs", x, self.k.integer(pattern)))
            second = b.vec("add.vv", V0, V0)
            b.emit("add.vs", second, V0, self.k(1.0), mask=b.cmp("mgt.mvs", code, self.k(1.0)))
            odd = b.s("or.s", odd, b.s("mv.mts", b.cmp("meq.mvs", code, self.k(UNKNOWN))))
            codes.append(code)
            seconds.append(second)
        places = self.number_rows(here["numbers"])
        # code = first + 2 second, so that an even lane is code - 2 second, and an odd one second.
        even = [[self.units[lane // 2 + half] if lane % 2 == 0 else V0 for lane in range(LANES)] for half in (0, 16)]
        less = self.k(-2.0)
        minus = [b.vec("mul.vs", unit, less) for unit in self.units]
        odds = [[(self.units if lane % 2 else minus)[lane // 2 + half] for lane in range(LANES)] for half in (0, 16)]
        for half in range(2):
            self.push_tile(even[half])
            sums = [b.v() for _ in codes]
            for out, code in zip(sums, codes):
                b.row(out, code)
            self.push_tile(odds[half])
            for number, (total, second) in enumerate(zip(sums, seconds)):
                out = b.v()
                b.row(out, second, total)
                b.store_row(out, *places[2 * number + half], NUMBERS_SID, "numbers", (half, number))
        place, target = here["numbers"], first["numbers"]
        for _ in range(2):
            b.tile_store(place, target, self.p["meta_numbers"], "numbers", "result")
            place, target = (b.s("add.s", x, self.row_bytes) for x in (place, target))
        with b.unless("beq.s", odd, X0):
            self.by_byte(first["bytes"], first["numbers"], self.row_bytes)

    # -- numbers to bytes ---------------------------------------------------------------------------------------------
    def narrow(self, here: dict[str, Reg], first: dict[str, Reg]) -> None:
        b, one = self.b, self.k(1.0)
        halves: list[list[Reg]] = [[], []]
        for number, (base, row) in enumerate(self.number_rows(here["numbers"])):
            x = b.load_row(base, row, NUMBERS_SID, "numbers")
            truth = b.vec("add.vv", V0, V0)
            b.emit("add.vs", truth, V0, one, mask=b.cmp("mneq.mvs", x, X0))
            halves[number % 2].append(truth)
        double = [b.vec("add.vv", unit, unit) for unit in self.units[1::2]]
        pairs = [b.vec("add.vv", unit, other) for unit, other in zip(self.units[::2], double)]
        codes = [V0] * len(halves[0])
        for half, truths in enumerate(halves):
            self.push_tile([pairs[lane % 16] if lane // 16 == half else V0 for lane in range(LANES)])
            for number, truth in enumerate(truths):
                out = b.v()
                b.row(out, truth, codes[number])
                codes[number] = out
        for number, code in enumerate(codes):
            out = b.vec("add.vv", V0, V0)
            for value, pattern in PATTERNS:
                mask = b.cmp("meq.mvs", code, self.k(value))
                b.emit("add.vs", out, V0, self.k.integer(pattern), mask=mask)
            b.store_row(out, here["bytes"], ROWS[number], BYTES_SID, "bytes", number)
        b.tile_store(here["bytes"], first["bytes"], self.p["meta_bytes"], "bytes", "result")

    # -- one by one ---------------------------------------------------------------------------------------------------
    def by_byte(self, place: Reg, number_place: Reg, count: Reg) -> None:
        b = self.b
        place, number_place = b.s("addi.s", place, 0), b.s("addi.s", number_place, 0)
        one, low_byte = self.k(1.0), self.k.integer(255)
        with b.loop(count):
            word, shift, whole = b.x(), b.s("slli.s", b.s("andi.s", place, 3), 3), b.s("andi.s", place, -4)
            number = b.x()
            b.emit("lw.s", word, 0, whole, access=(Access(*self.bytes_region),))
            if self.v.widens:
                b.emit("and.s", number, b.s("srl.s", word, shift), low_byte)
                with b.unless("beq.s", number, X0):
                    b.mov(number, one)
                b.emit("shw.s", number, 0, number_place, access=(Access("result", True),))
            else:
                b.emit("lhw.s", number, 0, number_place, access=(Access("dram", False),))
                truth = b.s("sltu.s", X0, b.s("slli.s", number, 1))  # of -0, nothing is left
                kept = b.s("and.s", word, b.s("xor.s", b.s("sll.s", low_byte, shift), b.li(-1)))
                found = b.s("or.s", kept, b.s("sll.s", truth, shift))
                b.emit("sw.s", found, 0, whole, access=(Access("result", True),))
            b.emit("addi.s", place, place, 1)
            b.emit("addi.s", number_place, number_place, ELEMENT)

    @property
    def bytes_region(self) -> tuple[str, bool]:
        return ("dram" if self.v.widens else "result"), False


build = _Truths.build
