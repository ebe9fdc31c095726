# SPDX-License-Identifier: BSD-3-Clause
"""Tiles in scratchpads, loops over their vectors, and operands of the vector unit's instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch_atalla.isa.geometry import LANES

from ....tile.ir import Op
from ..kernels import pointwise
from ..kernels.activation import Constants
from ..kernels.common import in_lanes
from ..kernels.tiling import ROW_BYTES, SCRATCH_ROWS
from ..scalar_core.values import Core, Value
from ..vir import M0, ROWS, V0, X0, Builder, Reg
from .values import Buffer, Shape, Truth

MOST_CONSTANTS = 96
Request = tuple[str, ...]  # for each dimension: "L" along the lanes, "R" along the rows, "0" has one place


class LineBuilder(Builder):
    """Knows the line of Python for which it records an instruction."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.line = 0
        self.lines: dict[Any, int] = {}  # by instruction

    def emit(self, name: str, *values: object, **more: Any) -> None:
        super().emit(name, *values, **more)
        self.lines[self.items[-1]] = self.line


class FewConstants(Constants):
    """Constants at the head of the function up to a number, since each keeps a register; further ones where they are
    used."""

    def integer(self, value: int) -> Reg:
        if ("integer", value) in self.known or len(self.known) < MOST_CONSTANTS:
            return super().integer(value)
        return self.b.li(value)


@dataclass(eq=False)
class Group:
    """Vectors whose code is one piece. The first one's row and tile of lanes are in registers if a loop runs over
    groups."""

    row: Reg | None = None
    tile: Reg | None = None
    known: dict[Any, Any] = field(default_factory=dict)  # what has been computed for it


@dataclass(frozen=True)
class At:
    """A vector: its row and tile of lanes from the group's first on."""

    group: Group
    row: int
    tile: int


def request(shape: Shape, lane: int | None) -> Request:
    """For a tile with this dimension along the lanes."""
    return tuple("0" if n == 1 else "L" if d == lane else "R" for d, n in enumerate(shape))


class Sweeps:
    def __init__(self, name: str) -> None:
        self.core = Core(name)
        self.b: LineBuilder = LineBuilder(name)
        self.core.b = self.b
        self.k = self.core.k = FewConstants(self.b)
        self.taken = [0, 0]  # rows of the scratchpads
        self.op: Op | None = None  # of the program, whose code is generated

    # ------------------------------------------------------------------------------------------------------ buffers
    def new_buffer(self, shape: Shape, lane: int | None, sid: int, halves: int = 1, **more: Any) -> Buffer:
        """halves: 2 for twice the room."""
        rows = Buffer(shape, sid, 0, lane).vectors * halves
        if self.taken[sid] + rows > SCRATCH_ROWS:
            sid = 1 - sid
        if self.taken[sid] + rows > SCRATCH_ROWS:
            assert self.op is not None
            raise self.op.fail(
                f"tiles that do not fit the scratchpads: {self.taken[0] + self.taken[1] + rows} rows of 32 numbers, "
                f"expected at most {2 * SCRATCH_ROWS}; take smaller blocks"
            )
        first = self.taken[sid]
        self.taken[sid] += rows
        return Buffer(shape, sid, first, lane, **more)

    def row_register(self, row: int) -> Reg:
        return ROWS[row] if row < LANES else self.k.integer(row)

    def place(self, buffer: Buffer, want: Request, at: At) -> tuple[Reg, Reg, object]:
        """The base, the row and the key of an access to the vector of a tile."""
        along = buffer.lane is not None and want[buffer.lane] == "L"
        down = any(w == "R" for d, w in enumerate(want) if d != buffer.lane)
        offset = (at.tile * buffer.rows if along else 0) + (at.row if down else 0)
        group = at.group
        moving = (along and group.tile is not None) or (down and group.row is not None)
        if not moving:
            row = buffer.first + offset
            key = ("row", row // LANES, buffer.shift)
            if key not in group.known:
                base = self.b.li(row // LANES * LANES * ROW_BYTES)
                group.known[key] = self.moved(base, buffer)
            return group.known[key], ROWS[row % LANES], offset
        key = (buffer.first, buffer.sid, buffer.shift, along, down)  # type: ignore[assignment]
        if key not in group.known:
            b, row_reg = self.b, None
            if along and group.tile is not None:
                row_reg = b.s("mul.s", group.tile, self.k.integer(buffer.rows)) if buffer.rows > 1 else group.tile
            if down and group.row is not None:
                row_reg = group.row if row_reg is None else b.s("add.s", row_reg, group.row)
            assert row_reg is not None
            group.known[key] = b.s("add.s", b.s("slli.s", row_reg, 6), self.base(buffer))
        # Code that writes a tile goes over all of its vectors; what reads others of them is kept in order.
        direct = along == (buffer.lane is not None and buffer.lanes > 1) and down == (buffer.rows > 1)
        return group.known[key], self.row_register(offset), ("moving", offset) if direct else None

    def moved(self, base: Reg, buffer: Buffer) -> Reg:
        return base if buffer.shift is None else self.b.s("add.s", base, buffer.shift.reg)

    def base(self, buffer: Buffer) -> Reg:
        """The address of its first row."""
        return self.moved(self.k.integer(buffer.first * ROW_BYTES) if buffer.first else X0, buffer)

    def load(self, buffer: Buffer, want: Request, at: At) -> Reg:
        base, row, key = self.place(buffer, want, at)
        return self.b.load_row(base, row, buffer.sid, buffer.region, key)

    def store(self, x: Reg, buffer: Buffer, want: Request, at: At) -> None:
        base, row, key = self.place(buffer, want, at)
        self.b.store_row(x, base, row, buffer.sid, buffer.region, key)

    # -------------------------------------------------------------------------------------------------------- loops
    def sweep(
        self,
        rows: int,
        tiles: int,
        body: Callable[[At], None],
        unroll: int = LANES,
        after: Callable[[Group], None] = lambda group: None,
    ) -> None:
        """body for each vector: all rows of the first tile of lanes, then those of the next. Sizes are powers of 2.
        after: what ends each group of up to `unroll` vectors."""
        count = min(rows * tiles, unroll)
        groups = rows * tiles // count

        def one(group: Group) -> None:
            for n in range(count):
                body(At(group, n % rows, n // rows))
            after(group)

        if groups == 1:
            one(Group())
            return
        b = self.b
        with b.loop(groups) as index:
            number = b.s("subi.s", index, 1)
            if count >= rows:
                one(Group(None, self.shifted(number, count // rows)))
            elif tiles == 1:
                one(Group(self.shifted(number, count), None))
            else:
                pieces = rows // count
                inside = b.s("and.s", number, self.k.integer(pieces - 1))
                one(Group(self.shifted(inside, count), b.s("srli.s", number, pieces.bit_length() - 1)))

    def each(self, count: int, body: Callable[[Reg | None], None], step: int = 1) -> None:
        """body(step times 0, 1, ... count - 1), a register; None if the count is 1."""
        if count == 1:
            body(None)
            return
        with self.b.loop(count) as index:
            body(self.shifted(self.b.s("subi.s", index, 1), step))

    def for_each(self, count: int, body: Callable[[Any], None], unrolled: int = 1) -> None:
        """body(0), body(1) and so on, in a loop over a value if they are more than `unrolled`."""
        if count <= unrolled:
            for number in range(count):
                body(number)
            return
        with self.core.range(count) as index:
            body(index)

    def shifted(self, x: Reg, factor: int) -> Reg:
        """x times a power of 2."""
        return self.b.s("slli.s", x, factor.bit_length() - 1) if factor > 1 else x

    def sweep_buffer(self, buffer: Buffer, body: Callable[[At], None], unroll: int = LANES) -> None:
        self.sweep(buffer.rows, -(-buffer.lanes // LANES), body, unroll)

    def lanes_mask(self, lanes: int) -> Reg:
        """The mask of the first lanes."""
        return self.b.mask(self.k.integer((1 << lanes) - 1))

    def only(self, x: Reg, lanes: int) -> Reg:
        """x, with 0 in the lanes behind the first ones."""
        return x if lanes >= LANES else in_lanes(self.b, self.lanes_mask(lanes), "add.vv", x, V0)

    def fill(self, buffer: Buffer, value: Reg) -> None:
        """All rows of a buffer."""
        want = request(buffer.shape, buffer.lane)
        self.sweep_buffer(buffer, lambda at: self.store(value, buffer, want, at))

    def register(self, value: Any, kind: str = "i") -> Reg:
        return self.core.value(value, kind).reg

    def variable(self, value: Any, kind: str = "") -> Value:
        return self.core.variable(value, kind or ("f" if isinstance(value, float) else "i"))

    # ------------------------------------------------------------------------------------- operands of instructions
    def lanes_computed(self, x: Any) -> int:
        """1 if all lanes of the tile's vectors are the same."""
        raise NotImplementedError

    def number(self, x: Any) -> pointwise.Number:
        """As an operand of a vector instruction."""
        return x if isinstance(x, Reg | float) else self.register(x, "f")

    def scalar(self, x: Any) -> Reg:
        """A number that all lanes have, in a scalar register."""
        return pointwise.scalar(self.k, self.number(x))

    def full(self, x: Any, at: At) -> Reg:
        """In a vector register."""
        if isinstance(x, Reg):
            return x
        if isinstance(x, float) and x == 0:
            return V0
        key = ("full", x)
        if key not in at.group.known:
            at.group.known[key] = self.b.vec("add.vs", V0, self.scalar(x))
        return at.group.known[key]

    def truth(self, x: Any) -> Truth:
        if isinstance(x, Truth):
            return x
        if isinstance(x, int):
            return Truth([M0] if x else [])
        return self.from_bits(self.b.s("sub.s", X0, self.core.nonzero(x).reg))

    def bits(self, x: Truth) -> Reg:
        word = X0
        for mask in x.masks:
            part = self.k.integer(-1) if mask is M0 else self.b.s("mv.mts", mask)
            word = part if word is X0 else self.b.s("or.s", word, part)
        return self.b.s("xori.s", word, -1) if x.inverted else word

    def from_bits(self, word: Reg) -> Truth:
        return Truth([self.b.mask(word)])
