# SPDX-License-Identifier: BSD-3-Clause
"""Values of a tile program while its code is generated: scalars, affine tiles, masks, tiles in a scratchpad.

A scalar is a Python number if the program has it as a constant, else a value in a scalar register. Its integers have 32
bits; `Wide` is one of 64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_atalla.isa.geometry import LANES

from ....tile.ir import Op
from ..scalar_core.values import Value
from ..vir import Reg

Scalar = int | float | Value
Shape = tuple[int, ...]


def extent(shape: Shape, lane: int | None) -> tuple[int, int]:
    """Rows and lanes of a tile with this dimension along the lanes."""
    return math.prod(n for d, n in enumerate(shape) if d != lane), 1 if lane is None else shape[lane]


@dataclass(frozen=True, eq=False)
class Wide:
    low: int | Value
    high: int | Value


@dataclass(frozen=True, eq=False)
class Wrap:
    """Places that go around: (start + i) modulo size."""

    start: int | Value
    size: int | Value


@dataclass(frozen=True)
class Term:
    """step * i, or step * ((start + i) modulo size), of the place i along a dimension."""

    step: int | Value
    wrap: Wrap | None = None


@dataclass(frozen=True, eq=False)
class Affine:
    """A tile of integers base + sum of terms, or of addresses: then the base is in bytes, and the steps in elements."""

    shape: Shape
    base: int | Value
    terms: dict[int, Term] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Mask:
    """Where all predicates are below 0."""

    shape: Shape
    predicates: tuple[Affine, ...]


@dataclass(frozen=True, eq=False)
class Uniform:
    """The same number everywhere."""

    shape: Shape
    value: Scalar


@dataclass(frozen=True, eq=False)
class Element:
    """A tile that the scalar core computes, element by element, from the places in it."""

    shape: Shape
    op: Op
    arguments: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """A tile of integers in DRAM, which the scalar core reads."""

    shape: Shape
    address: Value


@dataclass(frozen=True, eq=False)
class Lazy:
    """A tile that the vector unit computes where it is used."""

    shape: Shape
    op: Op
    arguments: tuple[Any, ...]
    name: str


@dataclass(frozen=True, eq=False)
class Buffer:
    """A tile in a scratchpad, one row per vector.

    lane: the dimension along the lanes. Its tiles of 32 lie one after the other, each with the rows of the other
    dimension. None: each element has a row, in all lanes if `spread`, else in lane 0. is_rounded: holds numbers of
    BF16. shift: bytes behind the first row that a register holds.
    """

    shape: Shape
    sid: int
    first: int
    lane: int | None
    is_rounded: bool = True
    spread: bool = True
    shift: Value | None = None

    @property
    def region(self) -> str:
        return f"scratchpad {self.sid} row {self.first}"

    @property
    def rows(self) -> int:
        """Along the dimension that is not along the lanes."""
        return extent(self.shape, self.lane)[0]

    @property
    def lanes(self) -> int:
        return extent(self.shape, self.lane)[1]

    @property
    def vectors(self) -> int:
        return self.rows * -(-self.lanes // LANES)


def places_of_argument(op: Op, shape: Shape, places: Sequence[Any], none: Any) -> tuple[Any, ...]:
    """What belongs to the dimensions of the argument, of this shape, of an op that gives a tile another shape. places:
    what belongs to the result's. none: for dimensions of one place that the op broadcasts."""
    if op.name == "tt.expand_dims":
        axis = op.attributes["axis"]
        return (*places[:axis], *places[axis + 1 :])
    if op.name == "tt.trans":
        order = op.attributes["order"]
        return tuple(places[order.index(d)] for d in range(len(order)))
    return tuple(none if n == 1 else place for n, place in zip(shape, places, strict=True))


Tile = Affine | Mask | Uniform | Element | Lazy | Buffer


class Truth:
    """A truth value for each lane: in one of the masks, or in none of them if `inverted`."""

    def __init__(self, masks: list[Reg], inverted: bool = False) -> None:
        self.masks, self.inverted = masks, inverted
