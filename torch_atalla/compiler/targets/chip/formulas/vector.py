# SPDX-License-Identifier: BSD-3-Clause
"""The formulas of the list of native ops as steps of the pointwise program, where the vector unit has all that they
need. Values are inputs, ("in", i), results of steps, ("step", i), and constants."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from math import exp, expm1, isfinite, isnan

from ..kernels.pointwise import Step, Unsupported
from .expression import MATH, Tree, parse

Value = tuple[str, int] | float

_ARITHMETIC: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "+": ("add", operator.add), "-": ("sub", operator.sub), "*": ("mul", operator.mul),
}  # fmt: skip
_COMPARISONS: dict[str, tuple[tuple[str, ...], Callable[[float, float], bool]]] = {
    "<": (("lt",), operator.lt), ">": (("gt",), operator.gt),
    "<=": (("lt", "eq"), operator.le), ">=": (("gt", "eq"), operator.ge),
    "==": (("eq",), operator.eq), "!=": (("ne",), operator.ne),
}  # fmt: skip
_OF_TRUTHS = {"&&": "mul", "||": "maximum", "&": "mul", "|": "maximum", "^": "ne"}
_MIRRORED = {"lt": "gt", "gt": "lt", "eq": "eq", "ne": "ne"}
_FUNCTIONS: dict[str, Callable[[float], float] | None] = {"exp": exp, "sigmoid": None, "tanh": None, "abs": abs}
# From here to 0, expm1 is x (1 + x / 2 + x^2 / 6): the difference of exp(x) and 1 has lost too many bits.
_CANCELS = 0.25
_NAMES = {**MATH, "true": 1.0, "false": 0.0}


def steps(formula: str, names: Mapping[str, Value], truths: Collection[Value] = ()) -> list[Step]:
    """The steps of a formula with one result. names: of its inputs and scalars. truths: inputs that are 0 or 1. Raises
    Unsupported."""
    trees = parse(formula)
    if len(trees) != 1:
        raise Unsupported("several results")
    made = _Formula(names, truths)
    result = made.value(trees[0])
    if isinstance(result, float):
        raise Unsupported("a constant")
    if result != ("step", len(made.steps) - 1):
        made.step("round", result)
    return made.steps


class _Formula:
    def __init__(self, names: Mapping[str, Value], truths: Collection[Value]) -> None:
        self.names, self.truths = names, set(truths)  # values that are 0 or 1
        self.steps: list[Step] = []
        self.known: dict[Step, Value] = {}

    def step(self, name: str, *parts: Value) -> Value:
        step = (name, *parts)
        if step not in self.known:
            self.steps.append(step)
            self.known[step] = ("step", len(self.steps) - 1)
        return self.known[step]

    def value(self, tree: Tree) -> Value:
        if tree.what == "number":
            return float(tree.name)
        if tree.what == "name":
            return self.name(tree.name)
        if tree.what == "call":
            return self.call(tree.name, [self.value(part) for part in tree.parts])
        if tree.what == "?":
            return self.choice(*tree.parts)
        if len(tree.parts) == 1:
            return self.unary(tree.what, self.value(tree.parts[0]))
        a, b = map(self.value, tree.parts)
        if tree.what in _ARITHMETIC:
            return self.arithmetic(tree.what, a, b)
        if tree.what in _COMPARISONS:
            return self.compare(tree.what, a, b)
        if tree.what == "/":
            return self.quotient(a, b)
        if tree.what in _OF_TRUTHS:
            return self.of_truths(_OF_TRUTHS[tree.what], self.truth(a), self.truth(b))
        raise Unsupported(f"the operator {tree.what}")

    def name(self, name: str) -> Value:
        for known in (self.names, _NAMES):
            if name in known:
                return known[name]
        raise Unsupported(f"a formula with {name}")

    def unary(self, what: str, x: Value) -> Value:
        if what == "-":
            return -x if isinstance(x, float) else self.step("neg", x)
        if what == "!":
            return self.compare("==", x, 0.0)
        raise Unsupported(f"the operator {what}")

    def arithmetic(self, what: str, a: Value, b: Value) -> Value:
        name, fold = _ARITHMETIC[what]
        if isinstance(a, float) and isinstance(b, float):
            return fold(a, b)
        if isinstance(a, float) and name != "sub":
            a, b = b, a
        if any(isinstance(x, float) and not isfinite(x) for x in (a, b)):
            raise Unsupported("arithmetic on an infinity")
        return a if name == "mul" and b == 1.0 else self.step(name, a, b)

    def quotient(self, a: Value, b: Value) -> Value:
        if isinstance(b, float):
            if b == 0.0 or not isfinite(b):
                raise Unsupported(f"a division by {b}")
            return self.arithmetic("*", a, 1.0 / b)
        return self.arithmetic("*", a, self.step("rcp", b))

    def compare(self, what: str, a: Value, b: Value) -> Value:
        names, fold = _COMPARISONS[what]
        if isinstance(a, float) and isinstance(b, float):
            return float(fold(a, b))
        if isinstance(a, float):
            a, b, names = b, a, tuple(_MIRRORED[name] for name in names)
        found = [self.step(name, a, b) for name in names]
        result = found[0] if len(found) == 1 else self.step("maximum", *found)
        self.truths.add(result)
        return result

    def truth(self, x: Value) -> Value:
        """0 or 1."""
        return x if x in self.truths else self.compare("!=", x, 0.0)

    def of_truths(self, name: str, a: Value, b: Value) -> Value:
        if isinstance(a, float):
            a, b = b, a
        if isinstance(b, float):
            if isinstance(a, float) or name == "ne":
                raise Unsupported("a truth value that is a constant")
            return b if (b == 0.0) == (name == "mul") else a
        result = self.step(name, a, b)
        self.truths.add(result)
        return result

    def extreme(self, name: str, a: Value, b: Value) -> Value:
        if isinstance(a, float) and isinstance(b, float):
            return max(a, b) if name == "maximum" else min(a, b)
        if isinstance(a, float):
            a, b = b, a
        if isinstance(b, float) and isnan(b):
            raise Unsupported("the smaller of a number and NaN")
        return self.step(name, a, b)

    def choice(self, condition: Tree, yes: Tree, no: Tree) -> Value:
        chosen = self.value(condition)
        if isinstance(chosen, float):
            return self.value(yes if chosen else no)
        return self.step("where", chosen, self.value(yes), self.value(no))

    def call(self, name: str, args: list[Value]) -> Value:
        if name == "T":
            return args[0]
        if name in ("minimum", "maximum"):
            return self.extreme(name, *args)
        if name == "clamp":
            return self.clamp(*args)
        if name == "isnan":
            return self.compare("!=", args[0], args[0])
        if name == "expm1":
            return self.expm1(args[0])
        if name == "sqrt" and not isinstance(args[0], float):
            return self.step("sqrt", args[0])
        if name not in _FUNCTIONS:
            raise Unsupported(f"the function {name}")
        fold = _FUNCTIONS[name]
        if isinstance(args[0], float):
            if fold is None:
                raise Unsupported(f"{name} of a constant")
            return fold(args[0])
        return self.step(name, args[0])

    def clamp(self, x: Value, has_low: Value, low: Value, has_high: Value, high: Value) -> Value:
        x = self.extreme("maximum", x, low) if has_low else x
        return self.extreme("minimum", x, high) if has_high else x

    def expm1(self, x: Value) -> Value:
        if isinstance(x, float):
            return expm1(x)
        far = self.arithmetic("-", self.step("exp", x), 1.0)
        near = self.arithmetic("+", self.arithmetic("*", x, 1 / 6), 0.5)
        near = self.arithmetic("*", self.arithmetic("+", self.arithmetic("*", near, x), 1.0), x)
        return self.step("where", self.compare("<", self.step("abs", x), _CANCELS), near, far)
