# SPDX-License-Identifier: BSD-3-Clause
"""Tiles with Python's operators, for functions that are made of many ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..ir import WIDTHS, Type
from ..lower import Lowering, Tile, rule
from ..step_types import FusedMultiplyAdd

Number = int | float


def _operator(kind: str) -> Callable[[Expr, Expr | Number], Expr]:
    return lambda x, other: x.op(kind, other)


@dataclasses.dataclass(frozen=True, eq=False)
class Expr:
    """A tile while an expression is lowered. Numbers beside it are constants of its type; `>>` keeps the sign."""

    low: Lowering
    tile: Tile

    @property
    def element(self) -> str:
        return self.tile.type.element

    @property
    def width(self) -> int:
        return WIDTHS[self.element]

    def like(self, number: Number) -> Expr:
        """A constant of this type."""
        return Expr(self.low, self.low.constant(number, Type(self.element, self.tile.type.shape)))

    def op(self, kind: str, other: Expr | Number, element: str | None = None) -> Expr:
        """The result of a TileArithmetic."""
        right = other if isinstance(other, Expr) else self.like(other)
        return Expr(self.low, self.low.binary(kind, self.tile, right.tile, element))

    def flag(self, kind: str, other: Expr | Number) -> Expr:
        """The result of a comparison."""
        return self.op(kind, other, "i1")

    __add__, __sub__, __mul__, __truediv__ = map(_operator, ("add", "sub", "mul", "div"))
    __and__, __or__, __xor__, __lshift__, __rshift__ = map(_operator, ("and", "or", "xor", "shl", "shr"))

    def __neg__(self) -> Expr:
        return self.like(0) - self if self.element.startswith("i") else self.formula("neg")

    def __invert__(self) -> Expr:
        return self ^ (1 if self.element == "i1" else -1)

    def formula(self, name: str, *others: Expr) -> Expr:
        """The result of a pointwise kernel."""
        return Expr(self.low, self.low.formula(name, self.tile, *(x.tile for x in others)))

    def fma(self, by: Expr, plus: Expr) -> Expr:
        out = self.low.result(self.tile.type, [self.tile, by.tile, plus.tile])
        self.low.emit(FusedMultiplyAdd(out.id, self.tile.id, by.tile.id, plus.tile.id))
        return Expr(self.low, out)

    def to(self, element: str) -> Expr:
        return Expr(self.low, self.low.convert(self.tile, element))

    def widened(self) -> Expr:
        return Expr(self.low, self.low.widened(self.tile))

    def unsigned(self, element: str) -> Expr:
        """With zeros in the new bits."""
        return Expr(self.low, self.low.unsigned(self.tile, element))

    def bits(self, element: str) -> Expr:
        """The same bits as another type of the same width."""
        return Expr(self.low, self.low.alias(self.tile, Type(element)))

    def where(self, yes: Expr | Number, no: Expr) -> Expr:
        """`yes` where this flag is set, and otherwise `no`."""
        chosen = yes if isinstance(yes, Expr) else no.like(yes)
        return Expr(self.low, self.low.select(self.tile, chosen.tile, no.tile))

    def is_nan(self) -> Expr:
        return ~self.flag("ordered", self)


def computes(*names: str) -> Callable[[Callable[..., Expr]], Callable[..., Expr]]:
    """The function below gives the one result of such ops, from the op and its operands."""

    def enter(function: Callable[..., Expr]) -> Callable[..., Expr]:
        rule(*names)(lambda low, op: [function(op, *(Expr(low, low.of(v)) for v in op.operands)).tile])
        return function

    return enter
