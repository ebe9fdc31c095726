# SPDX-License-Identifier: BSD-3-Clause
"""Conditions on sizes as data: what compiling a program took for granted, stored in cache entries.

A condition is a tree of lists. Its leaves are ["symbol", name], ["integer", text], ["true"] and ["false"]; every other
node is [operation, argument, ...] with an operation of `_OPERATIONS`. Reading a tree constructs nothing else and runs
no code, so trees may come from files.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy import functions

_MOST_NODES = 4096
_MOST_DEPTH = 64
_MOST_BITS = 256  # of a number: sizes have at most 63, products of a few sizes fit
_MOST_POWER = 8


class InvalidCondition(ValueError):
    """A tree that is not a condition on sizes."""


def _power(base: int, exponent: int) -> int:
    if not 0 <= exponent <= _MOST_POWER:
        raise InvalidCondition(f"the exponent {exponent}; expected 0 to {_MOST_POWER}")
    return int(base**exponent)


def _fold(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *args: reduce(function, args)


# name -> (class of the expression, its value for numbers, number of arguments; None: two or more).
# Division of C++ and of Python differ for negative numbers: Mod is for operands that are not negative.
_OPERATIONS: dict[str, tuple[Any, Callable[..., Any], int | None]] = {
    "add": (sympy.Add, _fold(operator.add), None),
    "multiply": (sympy.Mul, _fold(operator.mul), None),
    "power": (sympy.Pow, _power, 2),
    "power_by_natural": (functions.PowByNatural, _power, 2),
    "floor_divide": (functions.FloorDiv, operator.floordiv, 2),
    "exact_divide": (functions.CleanDiv, operator.floordiv, 2),
    "ceiling_divide": (functions.CeilDiv, lambda a, b: -(-a // b), 2),
    "modulo": (functions.Mod, operator.mod, 2),
    "python_modulo": (functions.PythonMod, operator.mod, 2),
    "minimum": (functions.Min, min, None),
    "maximum": (functions.Max, max, None),
    "equal": (sympy.Eq, operator.eq, 2),
    "differ": (sympy.Ne, operator.ne, 2),
    "less": (sympy.Lt, operator.lt, 2),
    "less_or_equal": (sympy.Le, operator.le, 2),
    "greater": (sympy.Gt, operator.gt, 2),
    "greater_or_equal": (sympy.Ge, operator.ge, 2),
    "and": (sympy.And, _fold(operator.and_), None),
    "or": (sympy.Or, _fold(operator.or_), None),
    "not": (sympy.Not, operator.not_, 1),
}
_NAMES = {kind: name for name, (kind, _, _) in _OPERATIONS.items()} | {sympy.Min: "minimum", sympy.Max: "maximum"}
_OF_TRUTH = frozenset({"and", "or", "not"})
_COMPARISONS = frozenset({"equal", "differ", "less", "less_or_equal", "greater", "greater_or_equal"})


def to_tree(expr: sympy.Basic) -> list[Any]:
    """Return an expression as a tree. Raises InvalidCondition for an operation that trees do not have."""
    if expr in (sympy.true, sympy.false):
        return ["true" if expr == sympy.true else "false"]
    if isinstance(expr, sympy.Symbol):
        return ["symbol", expr.name]
    if isinstance(expr, sympy.Integer):
        return ["integer", str(int(expr))]
    name = _NAMES.get(type(expr))
    if name is None:
        raise InvalidCondition(f"{type(expr).__name__} in {expr}; expected {', '.join(_OPERATIONS)}")
    return [name, *map(to_tree, expr.args)]


class Conditions:
    """Conditions read from a file. Raises InvalidCondition for anything that is not a list of trees of truth values."""

    def __init__(self, trees: Any):
        if not isinstance(trees, list):
            raise InvalidCondition("expected a list of conditions")
        self._left = _MOST_NODES
        self._trees = trees
        for tree in trees:
            if not self._check(tree, _MOST_DEPTH):
                raise InvalidCondition("expected a truth value, got a number")

    def _check(self, tree: Any, depth: int) -> bool:
        """Return whether the value of a tree is a truth value rather than a number."""
        self._left -= 1
        if self._left < 0 or depth == 0:
            raise InvalidCondition(f"expected at most {_MOST_NODES} nodes, nested {_MOST_DEPTH} times")
        if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
            raise InvalidCondition("expected a list that begins with a name")
        name, args = tree[0], tree[1:]
        if name in ("true", "false") and not args:
            return True
        if name in ("symbol", "integer"):
            if len(args) != 1 or not isinstance(args[0], str) or not 0 < len(args[0]) <= 64:
                raise InvalidCondition(f"expected one text behind {name!r}")
            if name == "symbol" and not (args[0].isascii() and args[0].isidentifier()):
                raise InvalidCondition("expected an identifier as the name of a symbol")
            if name == "integer" and not (args[0].isascii() and args[0].removeprefix("-").isdecimal()):
                raise InvalidCondition("expected the digits of an integer")
            return False
        if name not in _OPERATIONS:
            raise InvalidCondition(f"the operation {name[:40]!r}; expected {', '.join(_OPERATIONS)}")
        count = _OPERATIONS[name][2]
        if len(args) != count if count is not None else len(args) < 2:
            raise InvalidCondition(f"{len(args)} arguments of {name}")
        kinds = [self._check(arg, depth - 1) for arg in args]
        if any(kind != (name in _OF_TRUTH) for kind in kinds):
            raise InvalidCondition(f"a number or truth value where {name} does not take it")
        return name in _OF_TRUTH or name in _COMPARISONS

    def hold(self, values: Mapping[str, int]) -> bool:
        """Return whether all conditions hold for these values of symbols. A symbol without a value meets nothing."""
        try:
            return all(_value(tree, values) for tree in self._trees)
        except (KeyError, ZeroDivisionError):
            return False

    def expressions(self, symbols: Mapping[str, sympy.Symbol]) -> list[sympy.Basic]:
        """Return the conditions as expressions of `symbols`. Call `hold` first, which limits the numbers."""
        try:
            return [_expression(tree, symbols) for tree in self._trees]
        except Exception as error:  # sympy and upstream's functions check arguments with errors of many types
            raise InvalidCondition(str(error)) from error


def _value(tree: Sequence[Any], values: Mapping[str, int]) -> Any:
    name, args = tree[0], tree[1:]
    if name in ("true", "false"):
        return name == "true"
    if name == "symbol":
        return values[args[0]]
    found = int(args[0]) if name == "integer" else _OPERATIONS[name][1](*(_value(arg, values) for arg in args))
    if found.bit_length() > _MOST_BITS:
        raise InvalidCondition(f"a number of {found.bit_length()} bits; expected at most {_MOST_BITS}")
    return found


def _expression(tree: Sequence[Any], symbols: Mapping[str, sympy.Symbol]) -> sympy.Basic:
    name, args = tree[0], tree[1:]
    if name in ("true", "false"):
        return sympy.true if name == "true" else sympy.false
    if name == "symbol":
        return symbols[args[0]]
    if name == "integer":
        return sympy.Integer(int(args[0]))
    return _OPERATIONS[name][0](*(_expression(arg, symbols) for arg in args))


class SizeFacts:
    """What the ShapeEnv of a graph knows about sizes when it is made, and what it learns afterwards.

    Compiling asks the ShapeEnv about sizes. Each answer becomes a guard of Dynamo's. A program is valid wherever the
    facts known before are the same (`text` is part of the key) and the guards added meanwhile hold (`learned`).
    """

    def __init__(self, shape_env: ShapeEnv | None, symbols: Iterable[sympy.Symbol]):
        self._shape_env = shape_env
        self._count = len(shape_env.guards) if shape_env is not None else 0
        self.text = _known(shape_env, set(symbols)) if shape_env is not None else ""

    @property
    def grown(self) -> bool:
        """Whether guards have been added."""
        return self._shape_env is not None and len(self._shape_env.guards) > self._count

    def learned(self) -> list[Any] | None:
        """Return the guards added so far as trees, or None if they cannot be written or were not recorded."""
        if self._shape_env is None:
            return []
        if self._shape_env.frozen or ShapeEnv._suppress_guards_tls():
            return None
        try:
            trees = [to_tree(guard.expr) for guard in self._shape_env.guards[self._count :]]
            return trees if self.accept(Conditions(trees)) else None
        except InvalidCondition:
            return None

    def accept(self, conditions: Conditions) -> bool:
        """Return whether conditions hold for the current sizes. If so, add them to Dynamo's guards.

        Conditions that do not hold leave the ShapeEnv as it was: asking it would specialise the graph.
        """
        env = self._shape_env
        if env is None:
            return conditions.hold({})
        hints = {symbol.name: int(value) for symbol, value in env.backed_var_to_val.items() if _is_integer(value)}
        if not conditions.hold(hints):
            return False
        symbols = {symbol.name: symbol for symbol in env.backed_var_to_val}
        return all(env.evaluate_expr(expr) in (sympy.true, True) for expr in conditions.expressions(symbols))


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, sympy.Integer, torch.SymInt)) and not isinstance(value, bool)


def _known(env: ShapeEnv, symbols: set[sympy.Symbol]) -> str:
    """Return ranges of symbols, guards and assertions that concern them or symbols connected with them, as text."""
    asserts = [item.expr for items in env.deferred_runtime_asserts.values() for item in items]
    facts = {expr: expr.free_symbols for expr in (*(guard.expr for guard in env.guards), *asserts, *env.divisible)}
    facts |= {sympy.Eq(a, b, evaluate=False): {a, *b.free_symbols} for a, b in env.replacements.items()}
    concerned: set[str] = set()
    while True:
        found = {expr for expr, free in facts.items() if free & symbols and str(expr) not in concerned}
        if not found:
            break
        concerned |= {str(expr) for expr in found}
        symbols = symbols.union(*(facts[expr] for expr in found))
    lines = [
        f"{symbol}: {env.var_to_range.get(symbol)} {symbol in env.size_like} {symbol in env.backed_var_to_val}"
        for symbol in sorted(symbols, key=str)
    ]
    return "\n".join([*lines, *sorted(concerned)])
