# SPDX-License-Identifier: BSD-3-Clause
"""The rules of numbers: instructions of the vector unit for one vector of each arithmetic op of the IR."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from ..kernels import pointwise
from ..vir import Reg
from . import scalars
from .sweep import At, Sweeps
from .values import Lazy, Truth


def _step(name: str) -> Callable[..., Reg]:
    """A step of the pointwise kernels on vectors."""

    def apply(self: Sweeps, x: Lazy, at: At, *arguments: Any) -> Reg:
        return pointwise.apply(self.b, self.k, name, [self.full(argument, at) for argument in arguments])

    return apply


def _arithmetic(name: str) -> Callable[..., Reg]:
    def apply(self: Sweeps, x: Lazy, at: At, a: Any, c: Any) -> Reg:
        first = self.full(a, at) if name == "sub" else self.number(a)
        return pointwise.arithmetic(self.b, self.k, name, first, self.number(c))

    return apply


def _divide(self: Sweeps, x: Lazy, at: At, a: Any, c: Any) -> Reg:
    """By the reciprocal, which the scalar core computes: of one number, or lane by lane."""
    b = self.b
    if not isinstance(c, Reg):
        key = ("reciprocal", c)
        if key not in at.group.known:
            at.group.known[key] = self.core.new("rcp.bf", "f", self.core.value(c, "f")).reg
        return b.vec("mul.vs", a, at.group.known[key])
    inverse = pointwise.by_lane(b, "rcp", c, self.lanes_computed(x.arguments[1]))
    return b.vec("mul.vv", inverse, a) if isinstance(a, Reg) else b.vec("mul.vs", inverse, self.scalar(a))


def _by_lane(name: str) -> Callable[..., Reg]:
    def apply(self: Sweeps, x: Lazy, at: At, a: Any) -> Reg:
        return pointwise.by_lane(self.b, name, self.full(a, at), self.lanes_computed(x.arguments[0]))

    return apply


def _scalar_function(name: str) -> Callable[..., Reg]:
    """A function of the scalar core, lane by lane: of one lane if all are the same."""

    def apply(self: Sweeps, x: Lazy, at: At, a: Any) -> Reg:
        core = self.core

        def one(lane: Reg) -> Reg:
            return core.rounded(core.value(scalars.OPERATIONS[name](core, x.op, core.wrap(lane, "f")), "f")).reg

        return pointwise.by_lane(self.b, one, self.full(a, at), self.lanes_computed(x.arguments[0]))

    return apply


def _extreme(name: str) -> Callable[..., Reg]:
    """Of a number and a NaN, the number."""

    def apply(self: Sweeps, x: Lazy, at: At, a: Any, c: Any) -> Reg:
        return pointwise.extreme(self.b, self.k, name, self.full(a, at), self.full(c, at), keep_nans=False)

    return apply


def _fma(self: Sweeps, x: Lazy, at: At, a: Any, c: Any, d: Any) -> Reg:
    first = a if isinstance(a, Reg) or isinstance(c, Reg) else self.full(a, at)
    return _arithmetic("add")(self, x, at, _arithmetic("mul")(self, x, at, first, c), d)


# Predicate -> the relations of which one holds, and whether the result is the opposite.
_RELATIONS = {
    "olt": (("mlt",), False), "ogt": (("mgt",), False), "oeq": (("meq",), False), "ole": (("mlt", "meq"), False),
    "oge": (("mgt", "meq"), False), "one": (("mlt", "mgt"), False), "une": (("meq",), True),
    "ult": (("mgt", "meq"), True), "ugt": (("mlt", "meq"), True), "ule": (("mgt",), True), "uge": (("mlt",), True),
    "ueq": (("mlt", "mgt"), True), "ord": (("mlt", "mgt", "meq"), False), "uno": (("mlt", "mgt", "meq"), True),
}  # fmt: skip
_SWAPPED = {"olt": "ogt", "ogt": "olt", "ole": "oge", "oge": "ole", "ult": "ugt", "ugt": "ult", "ule": "uge",
            "uge": "ule"}  # fmt: skip


def _compare(self: Sweeps, x: Lazy, at: At, a: Any, c: Any) -> Truth:
    predicate = x.op.attributes["words"][0]
    if not isinstance(a, Reg):
        a, c, predicate = c, a, _SWAPPED.get(predicate, predicate)
    if predicate not in _RELATIONS:
        raise x.op.fail(f"the comparison `{predicate}`")
    relations, inverted = _RELATIONS[predicate]
    masks = [pointwise.compare(self.b, self.k, relation, a, self.number(c)) for relation in relations]
    return Truth(masks, inverted)


def where(self: Sweeps, condition: Truth, yes: Any, no: Any) -> Reg:
    first, other = self.number(yes), self.number(no)
    if condition.inverted:
        first, other = other, first
    return pointwise.choose(self.b, self.k, condition.masks, first, other)


def _select(self: Sweeps, x: Lazy, at: At, condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, int):
        return yes if condition else no
    truth = self.truth(condition)
    if isinstance(yes, Truth) or isinstance(no, Truth):
        chosen, (one, other) = self.bits(truth), (self.bits(self.truth(value)) for value in (yes, no))
        changed = self.b.s("and.s", self.b.s("xor.s", one, other), chosen)
        return self.from_bits(self.b.s("xor.s", other, changed))
    return where(self, truth, yes, no)


def _logic(name: str) -> Callable[..., Truth]:
    def apply(self: Sweeps, x: Lazy, at: At, a: Any, c: Any) -> Truth:
        return self.from_bits(self.b.s(name, self.bits(self.truth(a)), self.bits(self.truth(c))))

    return apply


def _number_of(self: Sweeps, x: Lazy, at: At, a: Any) -> Reg:
    """A truth value as 0 or 1."""
    return where(self, self.truth(a), -1.0 if x.op.name == "arith.sitofp" else 1.0, 0.0)


FUNCTIONS = ("math.log", "math.log2", "math.sin", "math.cos", "math.erf", "math.floor", "math.ceil")
VECTOR: dict[str, Callable[..., Any]] = {
    "arith.addf": _arithmetic("add"),
    "arith.subf": _arithmetic("sub"),
    "arith.mulf": _arithmetic("mul"),
    "arith.divf": _divide,
    "tt.precise_divf": _divide,
    "arith.negf": _step("neg"),
    "arith.maximumf": _step("maximum"),
    "arith.minimumf": _step("minimum"),
    "arith.maxnumf": _extreme("maximum"),
    "arith.minnumf": _extreme("minimum"),
    "math.absf": _step("abs"),
    "math.exp": _step("exp"),
    "math.exp2": lambda self, x, at, a: self.b.vec("expi.vi", self.b.vec("mul.vs", a, self.k(log(2.0)))),
    "math.fma": _fma,
    "math.tanh": _step("tanh"),
    "math.sqrt": _by_lane("sqrt"),
    "tt.precise_sqrt": _by_lane("sqrt"),
    "math.rsqrt": _by_lane("rsqrt"),
    **{name: _scalar_function(name) for name in FUNCTIONS},
    "arith.cmpf": _compare,
    "arith.select": _select,
    "arith.andi": _logic("and.s"),
    "arith.ori": _logic("or.s"),
    "arith.xori": _logic("xor.s"),
    "arith.uitofp": _number_of,
    "arith.sitofp": _number_of,
}
COSTS = dict.fromkeys(("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "math.absf"), 3)
COSTS |= dict.fromkeys(FUNCTIONS, 1000)
COSTS |= {"math.tanh": 20, "math.sqrt": 128, "tt.precise_sqrt": 128, "math.rsqrt": 160, "math.exp2": 2}
