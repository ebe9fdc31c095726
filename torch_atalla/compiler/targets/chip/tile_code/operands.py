# SPDX-License-Identifier: BSD-3-Clause
"""Operands of the vector unit's instructions: scalars, vectors of one number, and truth values as bits or masks."""

from __future__ import annotations

from typing import Any

from ..kernels import pointwise
from ..kernels.pointwise import Number
from ..vir import M0, V0, X0, Reg
from .sweep import At, Sweeps
from .values import Truth


class Operands(Sweeps):
    def lanes_computed(self, x: Any) -> int:
        """1 if all lanes of the tile's vectors are the same."""
        raise NotImplementedError

    def number(self, x: Any) -> Number:
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
        mask = self.b.m()
        self.b.emit("mv.stm", mask, self.b.s("sub.s", X0, self.core.nonzero(x).reg))
        return Truth([mask])

    def bits(self, x: Truth) -> Reg:
        word = X0
        for mask in x.masks:
            part = self.k.integer(-1) if mask is M0 else self.b.s("mv.mts", mask)
            word = part if word is X0 else self.b.s("or.s", word, part)
        return self.b.s("xori.s", word, -1) if x.inverted else word

    def from_bits(self, word: Reg) -> Truth:
        mask = self.b.m()
        self.b.emit("mv.stm", mask, word)
        return Truth([mask])
