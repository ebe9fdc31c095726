# SPDX-License-Identifier: BSD-3-Clause
"""What the kernels share: a function under construction, and steps that several of them record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from torch_atalla.driver import c_abi
from torch_atalla.isa.geometry import LANES

from ..vir import NEXT, ROWS, V0, X0, Builder, Reg
from .activation import Constants
from .kept import KeptBuilder, Transfer
from .tiling import SCRATCH_ROWS, TILE_BYTES

AHEAD = 16  # loads from a vector's to that which its instruction follows: the latency of a load, and one
FARTHEST = {"max": float("-inf"), "min": float("inf")}  # what an extreme starts from
Place = tuple[Reg, int, str]  # in a scratchpad: address, number of the scratchpad, and region
REPORT_FAULT = c_abi.ATALLA_ISA_REPORT_FAULT
FAULT_ARGUMENTS = tuple(Reg("x", number) for number in (10, 11, 12))


class Parameters(dict[str, Reg]):
    """The words of the descriptor by their names. The first use of a word loads it, at the head of the function."""

    def __init__(self, b: Builder, k: Constants) -> None:
        super().__init__()
        self.b, self.k = b, k

    def __missing__(self, name: str) -> Reg:
        self[name] = self.k.at_head(("parameter", name), lambda: self.b.parameter(name))
        return self[name]


class Kernel:
    """One function under construction: of a variant, which has a name."""

    v: Any

    def __init__(self, variant: Any, kept: Sequence[str] = ()) -> None:
        transfers = self.transfers(variant)
        self.b, self.v = KeptBuilder(variant.name, {word: transfers[word] for word in kept}), variant
        self.k = Constants(self.b)
        self.p = Parameters(self.b, self.k)

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

    def nest(
        self, depth: int, pointers: dict[str, Reg], body: Callable[..., None], count: str = "n", level: int = 0
    ) -> None:
        """`depth` loops of n0, n1, ... passes around body(**pointers). A level's steps have its pointers' names."""
        if level == depth:
            body(**pointers)
            return
        moves = ((pointer, self.p[f"{name}{level}"]) for name, pointer in pointers.items())
        with self.b.walk(self.p[f"{count}{level}"], *moves) as mine:
            self.nest(depth, dict(zip(pointers, mine)), body, count, level + 1)

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

    def apart(self, pointer: Reg, count: int, step: int) -> list[Reg]:
        """The pointer, and those `step` bytes behind the one before."""
        return [pointer, *(self.b.s("add.s", pointer, self.k.integer(n * step)) for n in range(1, count))]

    def load_tiles(self, scratch: Reg, dram: Reg, words: str, region: str) -> None:
        """The tiles that `tile_words` describes."""
        b, p = self.b, self.p
        moves = (scratch, self.k.integer(TILE_BYTES)), (dram, p[f"{words}_step"])
        with b.walk(p[f"{words}_whole"], *moves, skip_empty=True) as (scratch, dram):
            b.tile_load(scratch, dram, p[f"{words}_meta"], region)
        b.tile_load(scratch, dram, p[f"{words}_last"], region)

    def push_tile(self, vectors: Sequence[Reg]) -> None:
        push_tile(self.b, vectors)

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
        return unit_vectors(self.b, count)

    def reduce(
        self, kind: str, count: int, sweep: Callable[[Callable[[int, Reg], None]], None], start: Reg = V0
    ) -> list[Reg]:
        """`count` sums or extremes ("max", "min") of vectors, lane by lane. sweep: calls what it is given with the
        number of a result and a vector that belongs to it, for all of them. start: of the sums.

        Sums go through the array, which holds the identity, so that they stay in FP32. Of those that are NaN, the
        finite and the other vectors are added apart in another sweep.
        """
        b = self.b
        if kind in FARTHEST:
            best = [b.vec("add.vs", V0, self.k(FARTHEST[kind])) for _ in range(count)]
            sweep(lambda number, x: take_extreme(b, kind, best[number], x))
            return best
        totals = [b.vec("add.vv", start, V0) for _ in range(count)]
        sweep(lambda number, x: b.row(totals[number], x, totals[number]))
        with b.unless("beq.s", any_nan(b, totals), X0):
            for total in totals:
                b.emit("add.vv", total, start, V0)
            specials = [b.vec("add.vv", V0, V0) for _ in totals]
            sweep(lambda number, x: add_apart(b, x, totals[number], specials[number]))
            for total, special in zip(totals, specials):
                b.emit("add.vv", total, total, special)
        return totals

    def ones_vector(self) -> Reg:
        return self.b.vec("add.vs", V0, self.b.lf(1.0))

    def fill_rows(self, base: Reg, sid: int, region: str, value: Reg = V0) -> None:
        for number, row in enumerate(ROWS):
            self.b.store_row(value, base, row, sid, region, number)


def push_tile(b: Builder, vectors: Sequence[Reg]) -> None:
    """vectors[n] becomes output column n of the array; columns behind them become 0."""
    for vector in reversed([*vectors, *[V0] * (LANES - len(vectors))]):
        b.push(vector)


def unit_vectors(b: Builder, count: int = LANES) -> list[Reg]:
    """The first rows of the identity matrix."""
    seed = in_lanes(b, b.mask(ROWS[1]), "add.vs", V0, b.lf(1.0))
    return [seed] + [b.vec("rsum.vi", seed, 32 | lane) for lane in range(1, count)]


def store_transposed(b: Builder, units: Sequence[Reg], base: Reg, sid: int, region: str) -> list[Reg]:
    """The tile in the array, transposed, as rows of a scratchpad. units: the first rows of the identity matrix, each of
    which reads one column of the tile."""
    made = [b.v() for _ in units]
    for lane, (out, unit) in enumerate(zip(made, units)):
        b.row(out, unit)
        b.store_row(out, base, ROWS[lane], sid, region, ("transposed", lane))
    return made


def transpose_by_lane(
    b: Builder, size: tuple[int, int], source: Place, target: Place, moves: Sequence[tuple[str, Reg]]
) -> None:
    """A tile of a scratchpad to another place, transposed through the scalar core. size: its rows and columns.
    moves: instructions that take turns, with the vector that makes each give its scalar as it is."""
    rows, cols = size
    columns, lane = [b.vec("add.vv", V0, V0) for _ in range(cols)], b.s("addi.s", ROWS[1], 0)
    with b.walk(rows, (X0, 1)) as (row,):
        x, mask = b.load_row(source[0], row, *source[1:]), b.mask(lane)
        for number, column in enumerate(columns):
            name, vector = moves[number % len(moves)]
            b.emit(name, column, vector, b.s("vmov.vts", x, number), mask=mask)
        b.emit("slli.s", lane, lane, 1)
    for number, column in enumerate(columns):
        b.store_row(column, target[0], ROWS[number], *target[1:], number)


def in_lanes(b: Builder, mask: Reg | None, name: str, *operands: Reg) -> Reg:
    """The result of a vector instruction in the lanes of a mask, if there is one, and 0 in all others."""
    if mask is None:
        return b.vec(name, *operands)
    out = b.vec("add.vv", V0, V0)
    b.emit(name, out, *operands, mask=mask)
    return out


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
    clean = in_lanes(b, finite, "add.vv", x, V0)
    b.row(total, clean, total)
    b.emit("add.vv", special, special, b.vec("sub.vv", x, clean))


def take_extreme(b: Builder, kind: str, best: Reg, x: Reg, keep_nans: bool = True) -> None:
    """best = the larger ("max") or smaller ("min") of both, in every lane. keep_nans: a NaN stays, and takes the place
    of any number.
    """
    b.emit("add.vv", best, x, V0, mask=b.cmp("mgt.mvv" if kind == "max" else "mlt.mvv", x, best))
    if keep_nans:
        b.emit("add.vv", best, x, V0, mask=nans(b, x))


def keep_nans(b: Builder, found: Reg, x: Reg) -> Reg:
    """`found` in all lanes, or NaN if a lane of x holds one: plus the sum of the NaNs alone, 0 or NaN."""
    return b.vec("add.vv", found, b.vec("rsum.vi", x, 64, mask=nans(b, x)))


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
