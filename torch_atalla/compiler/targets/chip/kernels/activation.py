# SPDX-License-Identifier: BSD-3-Clause
"""Functions of one vector: each takes a vector register and gives a new one, rounded to BF16 (nearest even).

There is no vector divide. A sigmoid needs 1 / (1 + e) for e in (0, 1]; it is exp(-(e c1 + e^2 c2 + e^3 c3)), where the
bracket approximates log(1 + e).
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from ..vir import V0, X0, Builder, Reg

# log(1 + e) on [0, 1], minimax cubic through 0 (fitted by tools in docs/concepts/isa-codegen.md; largest error 6e-4).
LOG1P = (0.98745, -0.40840, 0.11463)


class Constants:
    """Scalar registers with constants, set once, at the place of the function where this was made."""

    def __init__(self, b: Builder) -> None:
        self.b, self.place = b, len(b.items)
        self.known: dict[object, Reg] = {}

    def at_head(self, key: object, make: Callable[[], Reg]) -> Reg:
        if key not in self.known:
            count = len(self.b.items)
            self.known[key] = make()
            fresh = self.b.items[count:]
            del self.b.items[count:]
            self.b.items[self.place : self.place] = fresh
            self.place += len(fresh)
        return self.known[key]

    def __call__(self, value: float) -> Reg:
        """The bits of the value as FP32, rounded to BF16."""
        return X0 if value == 0.0 else self.at_head(value, lambda: self.b.lf(value))

    def integer(self, value: int) -> Reg:
        return self.at_head(("integer", value), lambda: self.b.li(value))


def rounded(b: Builder, k: Constants, x: Reg, turn: int = 0) -> Reg:
    """x to BF16. A store truncates, so every result passes through here or another rounding instruction. Alternates
    between the units."""
    return b.vec("add.vv", x, V0) if turn % 2 else b.vec("mul.vs", x, k(1.0))


def relu(b: Builder, k: Constants, x: Reg) -> Reg:
    y = b.vec("mul.vs", x, k(1.0))
    b.emit("add.vv", y, V0, V0, mask=b.cmp("mlt.mvs", x, X0))
    return y


def leaky_relu(b: Builder, k: Constants, x: Reg, slope: float = 0.01) -> Reg:
    y = b.vec("add.vv", x, V0)
    b.emit("mul.vs", y, x, k(slope), mask=b.cmp("mlt.mvs", x, X0))
    return y


def _half_sigmoid(b: Builder, k: Constants, y: Reg) -> tuple[Reg, Reg, Reg]:
    """e = exp(-|y|), 1 / (1 + e), and the mask of y < 0."""
    negative = b.cmp("mlt.mvs", y, X0)
    q = b.vec("sub.vv", V0, y)
    b.emit("add.vv", q, y, V0, mask=negative)
    e = b.vec("expi.vi", q)
    c1, c2, c3 = LOG1P
    t = b.vec("mul.vs", e, k(-c3))
    t = b.vec("add.vs", t, k(-c2))
    t = b.vec("mul.vv", t, e)
    t = b.vec("add.vs", t, k(-c1))
    t = b.vec("mul.vv", t, e)
    return e, b.vec("expi.vi", t), negative


def sigmoid(b: Builder, k: Constants, x: Reg) -> Reg:
    e, s, negative = _half_sigmoid(b, k, x)
    b.emit("mul.vv", s, s, e, mask=negative)
    return s


def tanh(b: Builder, k: Constants, x: Reg) -> Reg:
    """(1 - e) / (1 + e) with e = exp(-2 |x|); x - x^3 / 3 where |x| is small and the difference would cancel."""
    e, s, negative = _half_sigmoid(b, k, b.vec("mul.vs", x, k(2.0)))
    d = b.vec("sub.vv", V0, e)
    d = b.vec("add.vs", d, k(1.0))
    out = b.vec("mul.vv", d, s)
    b.emit("sub.vv", out, V0, out, mask=negative)
    square = b.vec("mul.vv", x, x)
    small = b.cmp("mlt.mvs", square, k(0.0625))
    p = b.vec("mul.vs", square, k(-1 / 3))
    p = b.vec("add.vs", p, k(1.0))
    b.emit("mul.vv", out, p, x, mask=small)
    return out


def gelu(b: Builder, k: Constants, x: Reg) -> Reg:
    """x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), for both forms of GELU: they differ by less than a BF16 rounding of
    values near 1."""
    c = 2 * sqrt(2 / pi)
    p = b.vec("mul.vv", x, x)
    p = b.vec("mul.vs", p, k(c * 0.044715))
    p = b.vec("add.vs", p, k(c))
    return b.vec("mul.vv", x, sigmoid(b, k, b.vec("mul.vv", p, x)))


def silu(b: Builder, k: Constants, x: Reg) -> Reg:
    return b.vec("mul.vv", x, sigmoid(b, k, x))


Activation = Callable[[Builder, Constants, Reg], Reg]
ACTIVATIONS: dict[str, Activation] = {
    "relu": relu,
    "leaky_relu": leaky_relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "gelu": gelu,
    "silu": silu,
}
