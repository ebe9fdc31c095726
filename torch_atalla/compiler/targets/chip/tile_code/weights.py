# SPDX-License-Identifier: BSD-3-Clause
"""What the array holds: ones, whose products are sums over lanes; the identity; tiles of a matrix; and transposing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..kernels.common import any_nan, push_tile, store_transposed, transpose_by_lane, unit_vectors
from ..vir import ROWS, V0, Reg
from .sweep import At, Group, request
from .values import Buffer
from .vectors import Vectors


class Arrays(Vectors):
    """units: the rows of the identity, in a scratchpad. only_ones: whether the array holds nothing but ones, from the
    program's beginning on."""

    units: Buffer | None = None
    only_ones = False
    held = ""  # what the array holds in the code that is generated, if it is not a matrix

    def push(self, columns: Sequence[Reg]) -> None:
        push_tile(self.b, columns)
        self.held = ""

    def hold_ones(self) -> None:
        if self.held != "ones" and not self.only_ones:
            self.push([self.b.vec("add.vs", V0, self.k(1.0))] * LANES)
            self.held = "ones"

    def begin(self) -> None:
        """Before all other code, and behind what has pushed something else."""
        if self.only_ones:
            self.push([self.b.vec("add.vs", V0, self.k(1.0))] * LANES)

    def _make_units(self) -> Reg:
        """The rows of the identity. Its constants are no others' (it runs at the head of the function)."""
        b = self.b
        self.units = self.new_buffer((LANES, LANES), 1, 1)
        base = b.li(self.units.first * 64)
        for lane, unit in enumerate(unit_vectors(b)):
            b.store_row(unit, base, ROWS[lane], self.units.sid, self.units.region, lane)
        return base

    def load_units(self, count: int = LANES) -> list[Reg]:
        self.k.at_head("units", self._make_units)
        assert self.units is not None
        want, group = request(self.units.shape, 1), Group()
        return [self.load(self.units, want, At(group, row, 0)) for row in range(count)]

    def hold_identity(self) -> None:
        if self.held != "identity":
            self.push(self.load_units())
            self.held = "identity"

    # -------------------------------------------------------------------------------------------------- transposing
    def transposed(self, x: Buffer) -> Buffer:
        """By the array, a block of 32 x 32 at a time: its rows become columns, which the identity's rows read."""
        assert x.lane is not None and len(x.shape) == 2
        out = self.new_buffer(x.shape, 1 - x.lane, 1, is_rounded=True)
        high, wide = min(x.rows, LANES), min(x.lanes, LANES)
        down, across = x.rows // high, -(-x.lanes // LANES)
        unrolled = 4 if down * across <= 4 else 1

        def column(n: Any) -> None:
            self.for_each(down, lambda m: self._transpose(x, out, m, n, high, wide), unrolled)

        self.for_each(across, column, unrolled)
        self.begin()
        return out

    def _transpose(self, x: Buffer, out: Buffer, m: Any, n: Any, high: int, wide: int) -> None:
        """Block m along the rows and n along the lanes."""
        b = self.b
        first, goes_to = self.register(m * high + n * x.rows), self.register(n * wide + m * x.lanes)
        base = b.s("add.s", b.s("slli.s", first, 6), self.base(x))
        goal = b.s("add.s", b.s("slli.s", goes_to, 6), self.base(out))
        self.push([b.load_row(base, ROWS[row], x.sid, x.region) for row in range(high)])
        made = store_transposed(b, self.load_units(wide), goal, out.sid, out.region)
        found = self.core.variable(self.core.wrap(any_nan(b, made), "i"))
        with self.core.when(self.core.nonzero(found)):  # 0 times an infinity: lane by lane
            source, target = (base, x.sid, x.region), (goal, out.sid, out.region)
            transpose_by_lane(b, (high, wide), source, target, [("add.vs", V0)])
