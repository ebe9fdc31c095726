# SPDX-License-Identifier: BSD-3-Clause
"""Tiles that the vector unit computes: which layout they have, and the instructions for one vector of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch_atalla.isa.geometry import LANES

from ....tile.ir import TileError
from ..kernels.activation import rounded
from ..vir import ROWS, X0, Reg
from . import scalars
from .numbers import COSTS, VECTOR, where
from .sweep import At, Request, Sweeps, request
from .values import Affine, Buffer, Element, Lazy, Mask, Truth, Uniform, places_of_argument

SHAPES = ("expand", "broadcast", "transpose", "same")  # lazy tiles that compute nothing
_SPLAT = "splat"


class Vectors(Sweeps):
    """staged: of tiles that the scalar core computes. converted: buffers in another layout. Both by scopes, since code
    in a loop or branch may not run."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.scopes: list[dict[Any, Buffer]] = [{}]

    def known(self, key: Any) -> Buffer | None:
        return next((scope[key] for scope in reversed(self.scopes) if key in scope), None)

    def stage(self, x: Element) -> Buffer:
        """A tile of the scalar core in a scratchpad."""
        raise NotImplementedError

    def transposed(self, x: Buffer) -> Buffer:
        """With the other dimension along the lanes."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------- layouts
    def inner(self, x: Lazy, want: Request) -> Iterator[tuple[Any, Request]]:
        """The arguments, with what is wanted of them."""
        for argument in x.arguments:
            moves = x.name in ("expand", "broadcast", "transpose")
            yield argument, places_of_argument(x.op, argument.shape, want, "0") if moves else want

    def _natural(self, x: Any) -> Any:
        """A dimension, _SPLAT for a tile of equal lanes, or None if every layout costs the same."""
        if isinstance(x, Buffer):
            return _SPLAT if x.lane is None or x.shape[x.lane] == 1 else x.lane
        if not isinstance(x, Lazy):
            return None
        found = [self._natural(argument) for argument in x.arguments]
        if x.name == "expand":
            axis = x.op.attributes["axis"]
            found = [d + (d >= axis) if isinstance(d, int) else d for d in found]
        elif x.name == "broadcast" and isinstance(found[0], int):
            grows = any(n != m for d, (n, m) in enumerate(zip(x.shape, x.arguments[0].shape)) if d != found[0])
            found = [_SPLAT] if grows else found
        elif x.name == "transpose":
            order = x.op.attributes["order"]
            found = [order.index(d) if isinstance(d, int) else d for d in found]
        dims = {d for d in found if isinstance(d, int)}
        if len(x.shape) == 1 and _SPLAT in found:
            return _SPLAT
        if len(dims) == 1:
            return dims.pop()
        return len(x.shape) - 1 if dims else (_SPLAT if _SPLAT in found else None)

    def lane_of(self, x: Any) -> int | None:
        """The dimension that a tile has best along the lanes; None if each row is one number."""
        found = self._natural(x)
        if isinstance(found, int):
            return found
        sizes = [d for d, n in enumerate(x.shape) if n > 1]
        if (found is _SPLAT or x.shape[-1] == 1) and len(sizes) <= 1:
            return None
        return len(x.shape) - 1

    def prepare(self, x: Any, want: Request) -> None:
        """What `vector` needs, before a loop over vectors begins."""
        if isinstance(x, Element):
            if self.known(x) is None:
                self.scopes[-1][x] = self.stage(x)
            self.prepare(self.known(x), want)
        elif isinstance(x, Lazy):
            for argument, wanted in self.inner(x, want):
                self.prepare(argument, wanted)
        elif isinstance(x, Buffer):
            self.in_layout(x, want)

    def in_layout(self, x: Buffer, want: Request) -> Buffer:
        """The buffer, or another of the same numbers, whose rows are the vectors that are wanted."""
        lane = next((d for d, w in enumerate(want) if w == "L"), None)
        if lane == x.lane or (lane is None and x.lane is not None and x.shape[x.lane] == 1):
            return x
        rows = [d for d, w in enumerate(want) if w == "R"]
        if lane is None and x.lane is not None and len(rows) == 1 and rows[0] == x.lane:
            return self._converted(x, None)
        if lane is None and not rows:
            return x
        if x.lane is None and lane is not None:
            return self._converted(x, lane)
        if lane is not None and x.lane is not None:
            return self._converted(x, lane)
        return x

    def _converted(self, x: Buffer, lane: int | None) -> Buffer:
        found = self.known((x, lane))
        if found is None:
            found = self._spread(x) if lane is None else self._gathered(x, lane)
            self.scopes[-1][x, lane] = found
        return found

    def _gathered(self, x: Buffer, lane: int) -> Buffer:
        if x.lane is not None and x.shape[x.lane] > 1:
            return self.transposed(x)
        b = self.b
        out = self.new_buffer(x.shape, lane, 1, is_rounded=True)
        want, count = request(x.shape, None), x.shape[lane]
        lane0 = self.lanes_mask(1)
        lanes: list[Reg] = []

        def one(at: At) -> None:
            lanes.append(b.vec("rsum.vi", self.load(x, want, at), 32 | (at.row % LANES), mask=lane0))

        def end(group: Any) -> None:
            total = lanes[0]
            for other in lanes[1:]:
                total = b.vec("add.vv", total, other)
            lanes.clear()
            place = X0 if group.row is None else b.s("slli.s", b.s("srli.s", group.row, 5), 6)
            place = b.s("add.s", place, self.k.integer(out.first * 64)) if out.first else place
            b.store_row(total, place, X0, out.sid, out.region)

        self.sweep(count, 1, one, LANES, end)
        return out

    def _spread(self, x: Buffer) -> Buffer:
        """Each lane's number in a row of its own."""
        b = self.b
        assert x.lane is not None
        count = x.shape[x.lane]
        out = self.new_buffer(x.shape, None, 1)
        want = request(x.shape, x.lane)

        def one(at: At) -> None:
            vector = self.load(x, want, at)
            base = self.k.integer(out.first * 64)
            if at.group.tile is not None:
                base = b.s("add.s", base, b.s("slli.s", at.group.tile, 11))
            for lane in range(min(count, LANES)):
                mask = b.mask(b.s("slli.s", ROWS[1], lane))
                b.store_row(b.vec("rsum.vi", vector, 64, mask=mask), base, ROWS[lane], out.sid, out.region)

        self.sweep(1, -(-count // LANES), one, 1)
        return out

    # ------------------------------------------------------------------------------------------------------- vectors
    def vector(self, x: Any, want: Request, at: At) -> Any:
        """A register, a scalar if all elements are the same, or a Truth."""
        if isinstance(x, Uniform):
            return x.value
        key = (x, *((w, at.row if w == "R" else at.tile if w == "L" else 0) for w in want))
        if key not in at.group.known:
            at.group.known[key] = self._vector(x, want, at)
        return at.group.known[key]

    def _vector(self, x: Any, want: Request, at: At) -> Any:
        if isinstance(x, Buffer):
            return self._row(self.in_layout(x, want), want, at)
        if isinstance(x, Mask):
            return self._mask(x, want, at)
        if isinstance(x, Element):
            staged = self.known(x)
            assert staged is not None
            found = self._row(self.in_layout(staged, want), want, at)
            if x.op.results[0].type.element == "i1":
                return Truth([self.b.cmp("mneq.mvs", found, X0)])
            return found
        assert isinstance(x, Lazy)
        arguments = [self.vector(argument, wanted, at) for argument, wanted in self.inner(x, want)]
        if x.name in SHAPES:
            return arguments[0]
        return VECTOR[x.name](self, x, at, *arguments)

    def _row(self, x: Buffer, want: Request, at: At) -> Reg:
        found = self.load(x, want, at)
        if x.lane is None and x.spread or (x.lane is not None and x.shape[x.lane] > 1):
            return found
        return self.b.vec("rsum.vi", found, 64, mask=self.lanes_mask(1))

    def _mask(self, x: Mask, want: Request, at: At) -> Truth:
        words = [self._predicate(p, want, at) for p in x.predicates]
        word = words[0]
        for other in words[1:]:
            word = self.b.s("and.s", word, other)
        return self.from_bits(word)

    def _predicate(self, p: Affine, want: Request, at: At) -> Reg:
        """The bits of the lanes in which base + sum of terms is below 0."""
        core, b = self.core, self.b
        total, sign = p.base, 0
        for dim, term in p.terms.items():
            if want[dim] == "L":
                if not isinstance(term.step, int) or abs(term.step) != 1 or term.wrap is not None:
                    raise TileError("a mask that does not end at one lane")
                sign, first, moved = term.step, at.group.tile, LANES * at.tile
                if first is not None:
                    first = b.s("slli.s", first, 5)
            else:
                first, moved = at.group.row, at.row
                if want[dim] == "0":
                    first, moved = None, 0
            place: Any = moved if first is None else scalars.add(core, core.wrap(first, "i"), moved)
            total = scalars.add(core, total, scalars.multiply(core, place, term.step))
        if sign == 0:
            return b.s("srai.s", self.register(total), 31)
        if sign > 0:  # lanes below -total
            return self._first_lanes(scalars.subtract(core, 0, total))
        return b.s("xori.s", self._first_lanes(scalars.add(core, total, 1)), -1)

    def _first_lanes(self, count: Any) -> Reg:
        """The bits of `count` lanes: none below 1, all from 32 on."""
        b, core = self.b, self.core
        behind = self.register(scalars.subtract(core, LANES, count))
        some = b.s("srl.s", self.k.integer(-1), behind)
        inside = b.s("sub.s", X0, b.s("sltui.s", behind, LANES))
        everything = b.s("sub.s", X0, b.s("slti.s", behind, 1))
        return b.s("or.s", b.s("and.s", some, inside), everything)

    def lanes_computed(self, x: Any) -> int:
        """1 if all lanes of the tile's vectors are the same."""
        return 1 if self._natural(x) is _SPLAT else LANES

    def is_rounded(self, x: Any) -> bool:
        """Whether the vectors hold numbers of BF16."""
        if isinstance(x, Buffer):
            return x.is_rounded
        return self.is_rounded(x.arguments[0]) if isinstance(x, Lazy) and x.name in SHAPES else True

    def rounded(self, x: Reg, at: At) -> Reg:
        return rounded(self.b, self.k, x, at.row + at.tile)

    def cost(self, x: Any) -> int:
        """Vector instructions for a vector."""
        if not isinstance(x, Lazy):
            return 0
        return (x.name not in SHAPES) * COSTS.get(x.name, 1) + sum(map(self.cost, x.arguments))

    # -------------------------------------------------------------------------------------------------------- tiles
    def materialise(self, x: Any, lane: int | None, into: Buffer | None = None) -> Buffer:
        """The tile in a scratchpad, with this dimension along the lanes. into: where; it has this layout."""
        if isinstance(x, Buffer) and into is None:
            want = request(x.shape, lane)
            return self.in_layout(x, want)
        want = request(x.shape, lane)
        out = self.new_buffer(x.shape, lane, 1, is_rounded=self.is_rounded(x)) if into is None else into
        self._compute(x, want, out)
        return out

    def rounded_tile(self, x: Any, lane: int | None) -> Buffer:
        """Numbers of BF16 in a scratchpad: a store truncates."""
        want = request(x.shape, lane)
        if isinstance(x, Buffer) and x.is_rounded and self.in_layout(x, want) is x:
            return x
        out = self.new_buffer(x.shape, lane, 1)
        self._compute(x, want, out, rounds=not self.is_rounded(x))
        return out

    def _compute(self, x: Any, want: Request, out: Buffer, rounds: bool = False) -> None:
        """All vectors of a tile into a buffer of its layout."""
        self.prepare(x, want)

        def one(at: At) -> None:
            found = self.vector(x, want, at)
            if isinstance(found, Truth):
                found = where(self, found, 1.0, 0.0)
            found = self.full(found, at)
            self.store(self.rounded(found, at) if rounds else found, out, want, at)

        self.sweep_buffer(out, one, self.unroll(x))

    def unroll(self, x: Any) -> int:
        cost = self.cost(x)
        return LANES if cost < 24 else 8 if cost < 96 else 4 if cost < 1000 else 1
