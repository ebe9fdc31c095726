# SPDX-License-Identifier: BSD-3-Clause
"""The formulas of pointwise kernels on the scalar core."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..formulas.expression import MATH, Tree
from ..kernels.pointwise import Unsupported
from .formula_functions import FLOATING, INTEGER, quotient
from .values import Core, Value


def evaluate(core: Core, tree: Tree, names: Mapping[str, Value], kind: str) -> Value:
    """The value of an expression; kind: of the dtype T in which it computes. Raises Unsupported for functions that the
    scalar core has no code for."""

    def part(index: int) -> Value:
        return evaluate(core, tree.parts[index], names, kind)

    if tree.what == "number":
        text = tree.name
        return core.constant(float(text), "f") if kind == "f" else core.constant(int(float(text)), kind)
    if tree.what == "name":
        return _name(core, tree.name, names)
    if tree.what == "call":
        return _call(core, tree.name, [part(i) for i in range(len(tree.parts))], kind)
    if tree.what == "?":
        return core.select(part(0), part(1), part(2))
    if len(tree.parts) == 1:
        value = part(0)
        return {"-": lambda: -value, "!": lambda: ~core.nonzero(value), "~": lambda: ~value}[tree.what]()
    a, b = part(0), part(1)
    return OPERATORS[tree.what](core, a, b)


OPERATORS: dict[str, Callable[[Core, Value, Value], Value]] = {
    "+": lambda core, a, b: a + b,
    "-": lambda core, a, b: a - b,
    "*": lambda core, a, b: a * b,
    "/": lambda core, a, b: quotient(core, a, b),
    "<": lambda core, a, b: a < b,
    ">": lambda core, a, b: a > b,
    "<=": lambda core, a, b: a <= b,
    ">=": lambda core, a, b: a >= b,
    "==": lambda core, a, b: a.equals(b),
    "!=": lambda core, a, b: ~a.equals(b),
    "&&": lambda core, a, b: core.nonzero(a) & core.nonzero(b),
    "||": lambda core, a, b: core.nonzero(a) | core.nonzero(b),
    "&": lambda core, a, b: a & b,
    "|": lambda core, a, b: a | b,
    "^": lambda core, a, b: a ^ b,
}


def _name(core: Core, name: str, names: Mapping[str, Value]) -> Value:
    if name in names:
        return names[name]
    if name in MATH:
        return core.constant(MATH[name], "f")
    if name in ("true", "false"):
        return core.bits(int(name == "true"), "b")
    raise Unsupported(f"a formula with {name}")


def _call(core: Core, name: str, args: list[Value], kind: str) -> Value:
    if name == "T":
        return core.convert(args[0], kind)
    functions = FLOATING if any(arg.kind == "f" for arg in args) else INTEGER
    if name not in functions:
        raise Unsupported(f"the function {name}")
    return functions[name](core, *args)
