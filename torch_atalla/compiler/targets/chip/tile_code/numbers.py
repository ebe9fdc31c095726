# SPDX-License-Identifier: BSD-3-Clause
"""The rules of numbers: instructions of the vector unit for one vector of each arithmetic op of the IR."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..kernels import pointwise
from ..kernels.common import nans
from ..vir import ROWS, V0, Reg
from . import scalars
from .operands import Operands
from .sweep import At
from .values import Lazy, Truth


def _step(name: str) -> Callable[..., Reg]:
    """A step of the pointwise kernels."""

    def apply(self: Operands, x: Lazy, at: At, *arguments: Any) -> Reg:
        values = [self.full(argument, at) for argument in arguments]
        return pointwise.apply(self.b, self.k, (name, *range(len(values))), values)

    return apply


def _arithmetic(name: str) -> Callable[..., Reg]:
    def apply(self: Operands, x: Lazy, at: At, a: Any, c: Any) -> Reg:
        if isinstance(a, Reg) and isinstance(c, Reg):
            return self.b.vec(f"{name}.vv", a, c)
        if isinstance(c, Reg) and name != "sub":
            a, c = c, a
        if isinstance(a, Reg):
            return self.b.vec(f"{name}.vs", a, self.scalar(c))
        return self.b.vec("sub.vv", self.full(a, at), self.full(c, at))

    return apply


def _divide(self: Operands, x: Lazy, at: At, a: Any, c: Any) -> Reg:
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
    def apply(self: Operands, x: Lazy, at: At, a: Any) -> Reg:
        return pointwise.by_lane(self.b, name, self.full(a, at), self.lanes_computed(x.arguments[0]))

    return apply


def _scalar_function(name: str) -> Callable[..., Reg]:
    """A function of the scalar core, lane by lane: of one lane if all are the same."""

    def apply(self: Operands, x: Lazy, at: At, a: Any) -> Reg:
        b, core, vector = self.b, self.core, self.full(a, at)

        def one(lane: int) -> Reg:
            given = core.wrap(b.s("vmov.vts", vector, lane), "f")
            return core.rounded(core.value(scalars.OPERATIONS[name](core, x.op, given), "f")).reg

        if self.lanes_computed(x.arguments[0]) == 1:
            return b.vec("add.vs", V0, one(0))
        out = b.vec("add.vv", V0, V0)
        for lane in range(LANES):
            mask = b.m()
            b.emit("mv.stm", mask, b.s("slli.s", ROWS[1], lane))
            b.emit("add.vs", out, V0, one(lane), mask=mask)
        return out

    return apply


def _extreme(name: str) -> Callable[..., Reg]:
    """Of a number and a NaN, the number."""
    relation = "mgt.mvv" if name == "maximum" else "mlt.mvv"

    def apply(self: Operands, x: Lazy, at: At, a: Any, c: Any) -> Reg:
        b, first, second = self.b, self.full(a, at), self.full(c, at)
        y = b.vec("add.vv", first, V0)
        b.emit("add.vv", y, second, V0, mask=b.cmp(relation, second, first))
        b.emit("add.vv", y, second, V0, mask=nans(b, first))
        return y

    return apply


def _exp2(self: Operands, x: Lazy, at: At, a: Any) -> Reg:
    return self.b.vec("expi.vi", self.b.vec("mul.vs", a, self.k(log(2.0))))


def _fma(self: Operands, x: Lazy, at: At, a: Any, c: Any, d: Any) -> Reg:
    product = _arithmetic("mul")(self, x, at, a, c) if isinstance(a, Reg) or isinstance(c, Reg) else self.full(a, at)
    if not isinstance(a, Reg) and not isinstance(c, Reg):
        product = self.b.vec("mul.vs", product, self.scalar(c))
    return _arithmetic("add")(self, x, at, product, d)


# Predicate -> the relations of which one holds, and whether the result is the opposite.
_RELATIONS = {
    "olt": (("mlt",), False), "ogt": (("mgt",), False), "oeq": (("meq",), False), "ole": (("mlt", "meq"), False),
    "oge": (("mgt", "meq"), False), "one": (("mlt", "mgt"), False), "une": (("meq",), True),
    "ult": (("mgt", "meq"), True), "ugt": (("mlt", "meq"), True), "ule": (("mgt",), True), "uge": (("mlt",), True),
    "ueq": (("mlt", "mgt"), True), "ord": (("mlt", "mgt", "meq"), False), "uno": (("mlt", "mgt", "meq"), True),
}  # fmt: skip
_SWAPPED = {"olt": "ogt", "ogt": "olt", "ole": "oge", "oge": "ole", "ult": "ugt", "ugt": "ult", "ule": "uge",
            "uge": "ule"}  # fmt: skip


def _compare(self: Operands, x: Lazy, at: At, a: Any, c: Any) -> Truth:
    predicate = x.op.attributes["words"][0]
    if not isinstance(a, Reg):
        a, c, predicate = c, a, _SWAPPED.get(predicate, predicate)
    if predicate not in _RELATIONS:
        raise x.op.fail(f"the comparison `{predicate}`")
    relations, inverted = _RELATIONS[predicate]
    masks = []
    for relation in relations:
        if isinstance(c, Reg):
            masks.append(self.b.cmp(f"{relation}.mvv", a, c))
        else:
            near = self.k(pointwise._comparand(relation, c)) if isinstance(c, float) else self.scalar(c)
            masks.append(self.b.cmp(f"{relation}.mvs", a, near))
    return Truth(masks, inverted)


def where(self: Operands, condition: Truth, yes: Any, no: Any, at: At) -> Reg:
    b = self.b
    if condition.inverted:
        yes, no = no, yes
    y = b.vec("add.vv", no, V0) if isinstance(no, Reg) else b.vec("add.vs", V0, self.scalar(no))
    for mask in condition.masks:
        if isinstance(yes, Reg):
            b.emit("add.vv", y, yes, V0, mask=mask)
        else:
            b.emit("add.vs", y, V0, self.scalar(yes), mask=mask)
    return y


def _select(self: Operands, x: Lazy, at: At, condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, int):
        return yes if condition else no
    truth = self.truth(condition)
    if isinstance(yes, Truth) or isinstance(no, Truth):
        chosen, (one, other) = self.bits(truth), (self.bits(self.truth(value)) for value in (yes, no))
        changed = self.b.s("and.s", self.b.s("xor.s", one, other), chosen)
        return self.from_bits(self.b.s("xor.s", other, changed))
    return where(self, truth, yes, no, at)


def _logic(name: str) -> Callable[..., Truth]:
    def apply(self: Operands, x: Lazy, at: At, a: Any, c: Any) -> Truth:
        return self.from_bits(self.b.s(name, self.bits(self.truth(a)), self.bits(self.truth(c))))

    return apply


def _number_of(self: Operands, x: Lazy, at: At, a: Any) -> Reg:
    """A truth value as 0 or 1."""
    return where(self, self.truth(a), -1.0 if x.op.name == "arith.sitofp" else 1.0, 0.0, at)


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
    "math.exp2": _exp2,
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
