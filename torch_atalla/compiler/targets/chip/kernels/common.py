# SPDX-License-Identifier: BSD-3-Clause
"""What the kernels share: tile arithmetic, metadata words, loop nests, transposing through the array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from torch_atalla.driver import c_abi
from torch_atalla.isa.geometry import LANES

from ..vir import NEXT, ROWS, V0, X0, Builder, Reg
from .activation import Constants
from .kept import KeptBuilder, Transfer

ROW_BYTES = 64  # of a scratchpad row
TILE_BYTES = LANES * ROW_BYTES  # of a 32 x 32 tile, in a scratchpad and in DRAM alike
SCRATCH_ROWS = 16384  # 1 MiB
ELEMENT = 2  # bytes of a BF16
AHEAD = 16  # loads from a vector's to that which its instruction follows: the latency of a load, and one
REPORT_FAULT = c_abi.ATALLA_ISA_REPORT_FAULT
FAULT_ARGUMENTS = tuple(Reg("x", number) for number in (10, 11, 12))


def tiles(size: int) -> int:
    return -(-size // LANES)


def tail(size: int) -> int:
    """Elements of the last tile."""
    return (size - 1) % LANES + 1


def round_rows(rows: int) -> int:
    """How many of up to 32 rows (or more, in steps of 8) are computed: few sizes, so that calls share their code."""
    return next(r for r in (1, 2, 4, 8) if rows <= r) if rows <= 8 else -(-rows // 8) * 8


def pad_rows(rows: int) -> int:
    """Like `round_rows`, for up to 32 rows without matrix products."""
    return LANES if rows > 24 else next(r for r in (1, 2, 4, 8, 16, 24) if rows <= r)


def split(size: int) -> list[tuple[int, int, int]]:
    """(first, number of tiles, size of a tile) of the whole tiles and of the rest."""
    whole, rest = divmod(size, LANES)
    return [(0, whole, LANES)] * bool(whole) + [(whole * LANES, 1, rest)] * bool(rest)


def marks(**given: object) -> str:
    """The names of the arguments that are true: what tells the code of two variants apart."""
    return "".join(name for name, on in given.items() if on)


def nest_names(depth: int, names: Iterable[str]) -> list[str]:
    """The words of `depth` loops: for each level its count and the step of each pointer."""
    names = [*names]
    return [f"{name}{level}" for level in range(depth) for name in names]


def nest_words(loops: Iterable[Sequence[int]], names: Sequence[str], sizes: Sequence[int]) -> dict[str, int]:
    """The values of those words for loops (count, steps), the steps in units of `sizes` bytes."""
    return {f"{n}{level}": x * size for level, loop in enumerate(loops) for n, x, size in zip(names, loop, sizes)}


def odometer(loops: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The loops (count, steps) with steps that also take back all passes of the next inner loop, for
    `Kernel.advance`."""
    result = [*loops[-1:]]
    for (count, *steps), (inner, *back) in zip(loops[-2::-1], loops[:0:-1]):
        result.insert(0, (count, *(step - inner * b for step, b in zip(steps, back))))
    return result


def metadata(sid: int, rows: int, cols: int, row_length: int) -> int:
    """The word of scpad.ld and scpad.st; row_length is the distance of DRAM rows in elements."""
    if not (0 < rows <= LANES and 0 < cols <= LANES and 0 < row_length <= 1 << 20):
        raise ValueError(
            f"no tile of {rows} x {cols} with rows {row_length} elements apart; at most 32 x 32, 2^20 apart"
        )
    length = 0 if row_length == cols or rows == 1 else row_length - 1
    if length == 0 and not (row_length == cols or rows == 1):
        raise ValueError("a row length of 1 needs tiles of one column")
    return sid << 30 | (rows - 1) << 25 | (cols - 1) << 20 | length


def tile_in(sid: int, rows: int, cols: int, matrix: tuple[int, int, int]) -> int:
    """The word of a tile in a matrix: its rows, columns, and the distance of its rows, which may overlap.

    No transfer uses the word of a tile that is larger than the matrix. ValueError where all rows are one in memory.
    """
    height, width, step = matrix
    return metadata(sid, rows, cols, step if rows <= height and cols <= width and rows > 1 else cols)


class Kernel:
    """One function under construction: of a variant, which has a name."""

    v: Any

    def __init__(self, variant: Any, kept: Sequence[str] = ()) -> None:
        transfers = self.transfers(variant)
        self.b, self.v = KeptBuilder(variant.name, {word: transfers[word] for word in kept}), variant
        self.p: dict[str, Reg] = {}

    @classmethod
    def build(cls, variant: Any, kept: Sequence[str] = ()) -> Builder:
        """kept: words whose operands stay in scratchpad 0, out of those that `transfers` names."""
        kernel = cls(variant, kept)
        kernel.emit()
        kernel.b.ret()
        return kernel.b

    @classmethod
    def transfers(cls, variant: Any) -> dict[str, Transfer]:
        """Operands that may stay in scratchpad 0, by the words of their addresses."""
        return {}

    @classmethod
    def scratch_rows(cls, variant: Any, words: Mapping[str, Any]) -> int:
        """How many rows of scratchpad 0 the kernel uses, from row 0."""
        return SCRATCH_ROWS

    def emit(self) -> None:
        raise NotImplementedError

    def load_parameters(self, names: Iterable[str]) -> None:
        """Words of the descriptor, in this order. Constants are set behind them."""
        self.p = {name: self.b.parameter(name) for name in dict.fromkeys(names)}
        self.k = Constants(self.b)

    def nest(
        self, depth: int, pointers: dict[str, Reg], body: Callable[..., None], count: str = "n", level: int = 0
    ) -> None:
        """`depth` loops of n0, n1, ... passes around body(**pointers). A level's steps have its pointers' names."""
        if level == depth:
            body(**pointers)
            return
        mine = {name: self.b.s("addi.s", pointer, 0) for name, pointer in pointers.items()}
        with self.b.loop(self.p[f"{count}{level}"]):
            self.nest(depth, mine, body, count, level + 1)
            for name, pointer in mine.items():
                self.b.emit("add.s", pointer, pointer, self.p[f"{name}{level}"])

    def advance(self, pointers: dict[str, Reg], counters: list[Reg]) -> None:
        """Moves the pointers to the next pass of a nest: loops of n0, n1, ... passes whose steps `odometer` gave.

        counters: the passes of each loop that are done, 0 before the first pass.
        """
        b = self.b
        level = len(counters) - 1
        if level < 0:
            return
        for name, pointer in pointers.items():
            b.emit("add.s", pointer, pointer, self.p[f"{name}{level}"])
        b.emit("addi.s", counters[level], counters[level], 1)
        if level:
            with b.unless("blt.s", counters[level], self.p[f"n{level}"]):
                b.emit("li.s", counters[level], 0)
                self.advance(pointers, counters[:-1])

    def load_tiles(self, scratch: Reg, dram: Reg, words: str, step: str, region: str) -> None:
        """`words`_whole tiles, `step` bytes apart in DRAM, and a last one."""
        b, p = self.b, self.p
        scratch, dram = b.s("addi.s", scratch, 0), b.s("addi.s", dram, 0)
        with b.loop(p[f"{words}_whole"], skip_empty=True):
            b.tile_load(scratch, dram, p[f"{words}_meta"], region)
            b.emit("add.s", scratch, scratch, self.k.integer(TILE_BYTES))
            b.emit("add.s", dram, dram, p[step])
        b.tile_load(scratch, dram, p[f"{words}_last"], region)

    def share(self, most: Reg, left: Reg) -> Reg:
        """min(most, left), which is taken off `left`."""
        count = self.b.s("addi.s", most, 0)
        with self.b.unless("ble.s", count, left):
            self.b.mov(count, left)
        self.b.emit("sub.s", left, left, count)
        return count

    def push_tile(self, vectors: list[Reg]) -> None:
        """vectors[n] becomes output column n."""
        for vector in reversed(vectors):
            self.b.push(vector)

    def push_ahead(self, load: Callable[[int], Reg], count: int, pair: bool) -> None:
        """As `push_tile` for vectors that come a few at a time: load(n) becomes output column n. pair: as for
        `push`."""
        columns = [*reversed(range(count))]
        vectors = [load(column) for column in columns[:AHEAD]]
        for number in range(count):
            if number + AHEAD < count:
                vectors.append(load(columns[number + AHEAD]))
            self.b.push(vectors[number], pair)

    def load_tile_rows(self, base: Reg, sid: int, region: str) -> list[Reg]:
        return [self.b.load_row(base, row, sid, region) for row in ROWS]

    def unit_vectors(self, count: int = LANES) -> list[Reg]:
        """The first rows of the identity matrix."""
        b, mask = self.b, self.b.m()
        b.emit("mv.stm", mask, ROWS[1])
        seed = b.vec("add.vv", V0, V0)
        b.emit("add.vs", seed, V0, b.lf(1.0), mask=mask)
        return [seed] + [b.vec("rsum.vi", seed, 32 | lane) for lane in range(1, count)]

    def add_apart_again(
        self, totals: list[Reg], specials: list[Reg], sweep: Callable[[], None], start: Reg = V0
    ) -> None:
        """Sums of infinities and NaNs, which must not reach other lanes: another sweep, which adds them to `specials`
        (`add_apart`)."""
        b = self.b
        with b.unless("beq.s", any_nan(b, totals), X0):
            for total in totals:
                b.emit("add.vv", total, start, V0)
            specials += [b.vec("add.vv", V0, V0) for _ in totals]
            sweep()
            for total, special in zip(totals, specials):
                b.emit("add.vv", total, total, special)

    def ones_vector(self) -> Reg:
        return self.b.vec("add.vs", V0, self.b.lf(1.0))

    def zero_rows(self, base: Reg, sid: int, region: str) -> None:
        for number, row in enumerate(ROWS):
            self.b.store_row(V0, base, row, sid, region, number)


def nans(b: Builder, x: Reg) -> Reg:
    """The mask of the lanes that hold a NaN."""
    return b.cmp("mneq.mvv", x, x)


def any_nan(b: Builder, vectors: Iterable[Reg]) -> Reg:
    """Not 0 if a lane of a vector holds a NaN."""
    masks = [b.s("mv.mts", nans(b, vector)) for vector in vectors]
    return reduce(lambda one, other: b.s("or.s", one, other), masks)


def add_apart(b: Builder, x: Reg, total: Reg, special: Reg) -> None:
    """total += x through the array, which holds the identity, for the finite lanes of x; special += x for the others.

    0 times an infinity is NaN, so that in one pass an infinity would reach all lanes.
    """
    finite = b.cmp("meq.mvs", b.vec("mul.vs", x, X0), X0)
    clean = b.vec("add.vv", V0, V0)
    b.emit("add.vv", clean, x, V0, mask=finite)
    b.row(total, clean, total)
    b.emit("add.vv", special, special, b.vec("sub.vv", x, clean))


def take_extreme(b: Builder, kind: str, best: Reg, x: Reg) -> None:
    """best = the larger ("max") or smaller ("min") of both, in every lane. A NaN stays, and takes the place of any
    number.
    """
    b.emit("add.vv", best, x, V0, mask=b.cmp("mgt.mvv" if kind == "max" else "mlt.mvv", x, best))
    b.emit("add.vv", best, x, V0, mask=nans(b, x))


def fault(b: Builder, code: int, value: Reg = X0, bound: Reg = X0) -> None:
    """Stop the program with an error. The firmware formats its text.

    code: one of c_abi.ATALLA_ISA_FAULT_*, which defines the text and the meaning of `value` and `bound`.
    """
    b.mov(NEXT, value)  # value and bound may be in the registers of the arguments
    b.mov(FAULT_ARGUMENTS[2], bound)
    b.mov(FAULT_ARGUMENTS[1], NEXT)
    b.emit("li.s", FAULT_ARGUMENTS[0], code)
    b.emit("jalr.s", X0, X0, REPORT_FAULT)


def warm_up(b: Builder) -> None:
    """The first 32 pushes after reset fill columns 0 to 31; every later push shifts. From here on column 31 goes
    first.
    """
    for _ in range(LANES):
        b.push(V0)
