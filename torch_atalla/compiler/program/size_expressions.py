# SPDX-License-Identifier: BSD-3-Clause
"""Symbols out of an exported program, conditions on them, and their expressions as records of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.format import ExpressionOp

from .size_functions import NotEmpty, NotNegative, without_functions
from .sizes import UNBOUNDED, Symbol, Symbols, limits


def find_symbols(constraints: Mapping[sympy.Symbol, ValueRanges], inputs: list[tuple[str, Any]]) -> Symbols:
    """Which dimension of which input gives each symbol its value; inputs as (name, fake tensor), in order. constraints:
    ranges that the user declared."""
    wanted = [(number, dim, size) for number, (_, value) in enumerate(inputs) for dim, size in enumerate(value.shape)]
    symbolic = [(number, dim, size) for number, dim, size in wanted if isinstance(size, torch.SymInt)]
    strides = [(value, stride) for _, value in inputs for stride in value.stride() if isinstance(stride, torch.SymInt)]
    if not symbolic and not strides:
        return Symbols()
    shape_env = (symbolic[0][2] if symbolic else strides[0][1]).node.shape_env
    fake: Any = inputs[symbolic[0][0]][1] if symbolic else strides[0][0]
    result = Symbols(shape_env=shape_env, fake_mode=fake.fake_mode)
    found: dict[sympy.Symbol, Symbol] = {}
    for plain in (True, False):  # a dimension that is a symbol, before one that is a multiple of it
        for number, dim, size in symbolic:
            expr = shape_env.replace(size.node.expr)
            if expr.is_number or isinstance(expr, sympy.Symbol) != plain or len(expr.free_symbols) != 1:
                continue
            (symbol,) = expr.free_symbols
            if symbol not in found:
                linear = _linear(expr, symbol)
                if linear is not None:
                    found[symbol] = _symbol(constraints, shape_env, symbol, number, dim, *linear)
    used = {s for number, dim, size in symbolic for s in shape_env.replace(size.node.expr).free_symbols}
    if used - set(found):
        names = ", ".join(sorted(map(str, used - set(found))))
        raise ExportError(f"no dimension of an input determines {names}; expected one that is a multiple of it")
    result.symbols = _jointly_possible(shape_env, list(found.values()))
    # Where the export left strides to the call, too (Dim.AUTO), the program keeps those of the example.
    for _, stride in strides:
        for symbol in shape_env.replace(stride.node.expr).free_symbols - set(found):
            result.strides[symbol] = sympy.Integer(int(shape_env.backed_var_to_val[symbol]))
    return result


def check_dynamic(
    program: torch.export.ExportedProgram, before: list[tuple[str, Any]], after: list[tuple[str, Any]]
) -> None:
    """Raises ExportError for a size that the export left to the call, and that taking the program apart fixed: it would
    silently take one size alone. before, after: the inputs as (name, fake tensor), in order."""
    for (name, value), (_, decomposed) in zip(before, after, strict=True):
        for dim, (size, found) in enumerate(zip(value.shape, decomposed.shape, strict=True)):
            if not isinstance(size, torch.SymInt):
                continue
            declared = [program.range_constraints.get(symbol) for symbol in size.node._expr.free_symbols]
            if not any(bounds is not None and not bounds.is_singleton() for bounds in declared):
                continue
            symbolic = isinstance(found, torch.SymInt)
            expr = sympy.sympify(found.node.shape_env.replace(found.node.expr) if symbolic else found)
            if expr.is_number:
                raise ExportError(
                    f"dimension {dim} of input {name!r} was exported as {size.node._expr}, but taking it apart "
                    f"specialised it to {expr}; expected ops that keep sizes dynamic (an in-place write to a view made "
                    "by unfold does not), or an export for one size"
                )


def _linear(expr: sympy.Basic, symbol: sympy.Symbol) -> tuple[int, int] | None:
    """(a, b) of a * symbol + b with a > 0."""
    if not expr.is_polynomial(symbol) or sympy.degree(expr, symbol) != 1:
        return None
    a, b = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
    return (int(a), int(b)) if a.is_Integer and b.is_Integer and a > 0 else None


def _symbol(
    constraints: Mapping[sympy.Symbol, ValueRanges],
    shape_env: Any,
    symbol: sympy.Symbol,
    number: int,
    dim: int,
    multiplier: int,
    offset: int,
) -> Symbol:
    bounds = constraints.get(symbol, shape_env.var_to_range.get(symbol))
    low, high = (0, UNBOUNDED) if bounds is None else limits(bounds)
    if high >= 1 << 40:
        high = UNBOUNDED
    hint = int(shape_env.backed_var_to_val.get(symbol, low))
    high = _largest(shape_env, symbol, hint, high)
    value = high if high < UNBOUNDED else max(hint, low)
    return Symbol(symbol, number, dim, low, high, multiplier, offset, value)


def _largest(shape_env: Any, symbol: sympy.Symbol, hint: int, high: int) -> int:
    """The largest size up to `high` that meets the conditions on this symbol alone: memory is planned for it. `hint`
    is of the example inputs, and meets them."""
    if high == UNBOUNDED:
        return high
    conditions = [
        expr for guard in shape_env.guards if (expr := shape_env.replace(guard.expr)).free_symbols == {symbol}
    ]
    while high > hint and any(expr.xreplace({symbol: sympy.Integer(high)}) == sympy.false for expr in conditions):
        high -= 1
    return high


def _jointly_possible(shape_env: Any, symbols: list[Symbol]) -> list[Symbol]:
    """With maxima, and sizes to plan for, that conditions on several symbols leave possible."""
    known = {symbol.symbol: symbol for symbol in symbols}
    for guard in shape_env.guards:
        expr = shape_env.replace(guard.expr)
        free = expr.free_symbols
        if len(free) < 2 or not free <= set(known) or not all(known[name].bounded for name in free):
            continue
        for name in free:
            others = [_candidates(known[other]) for other in free - {name}]
            names = [*(free - {name})]
            high = known[name].max
            while high > known[name].min and all(
                expr.xreplace({name: sympy.Integer(high), **dict(zip(names, values))}) == sympy.false
                for values in product(*others)
            ):
                high -= 1
            known[name] = replace(known[name], max=high, value=min(known[name].value, high))
    return list(known.values())


def _candidates(symbol: Symbol) -> list[sympy.Integer]:
    """All values of a symbol, or the outermost and some between."""
    step = max(1, (symbol.max - symbol.min) // 32)
    return [sympy.Integer(value) for value in {*range(symbol.min, symbol.max + 1, step), symbol.max}]


def collect_guards(symbols: Symbols) -> None:
    """What upstream and lowering took for granted about sizes, beyond the ranges, becomes a condition of the file."""
    if not symbols.symbols:
        return
    for symbol in symbols.symbols:
        now = symbols.replace(symbol.symbol)
        if now != symbol.symbol:
            raise _specialised(symbol, f"{symbol.symbol} = {now}")
    ranges, known = symbols.ranges(), {guard for guard, _ in symbols.guards}
    for guard in symbols.shape_env.guards:
        if symbols.shape_env.replace(guard.expr).free_symbols & set(symbols.strides):
            continue  # an input with other strides than the example's is copied
        expr = symbols.replace(guard.expr)
        if expr in (sympy.true, True) or expr in known:
            continue
        if expr in (sympy.false, False):
            raise ExportError(f"the condition {guard.expr} on sizes contradicts the others")
        if not expr.free_symbols <= set(ranges):
            if symbols.checked_by_caller:
                continue  # about sizes that the program does not have
            raise ExportError(f"a condition on sizes depends on data: {expr}")
        if _holds(expr, ranges):
            continue
        specialised = next((symbol for symbol in symbols.symbols if _fixes(expr, symbol)), None)
        if specialised is not None:
            raise _specialised(specialised, str(expr))
        planned = {symbol.symbol: sympy.Integer(symbol.value) for symbol in symbols.symbols}
        if expr.xreplace(planned) == sympy.false:
            raise ExportError(
                f"memory is planned for the sizes {', '.join(f'{k} = {v}' for k, v in planned.items())}, for which the "
                f"program is not valid: it takes {expr}; expected smaller ranges in dynamic_shapes"
            )
        known.add(expr)
        symbols.guards.append((expr, str(expr)))


def _specialised(symbol: Symbol, why: str) -> ExportError:
    return ExportError(
        f"dimension {symbol.dim} of input {symbol.input} was specialised ({why}); expected sizes from {symbol.min} to "
        f"{symbol.max}"
    )


def _holds(expr: sympy.Basic, ranges: dict[sympy.Symbol, ValueRanges]) -> bool:
    """Whether the ranges imply it."""
    try:
        return bound_sympy(expr, ranges).is_singleton() and bool(bound_sympy(expr, ranges).lower)
    except Exception:  # noqa: BLE001 (an operation that upstream has no range for: the condition stays)
        return False


def _fixes(expr: sympy.Basic, symbol: Symbol) -> bool:
    return isinstance(expr, sympy.Eq) and set(expr.args) >= {symbol.symbol} and any(arg.is_number for arg in expr.args)


_BINARY = {
    FloorDiv: ExpressionOp.FLOOR_DIV,
    Mod: ExpressionOp.MOD,
    PythonMod: ExpressionOp.MOD,
    sympy.Eq: ExpressionOp.EQ,
    sympy.Ne: ExpressionOp.NE,
    sympy.Lt: ExpressionOp.LT,
    sympy.Le: ExpressionOp.LE,
}
_DIVISIONS = (FloorDiv, Mod, PythonMod)
_CHAINS = {
    sympy.Add: ExpressionOp.ADD,
    sympy.Mul: ExpressionOp.MUL,
    sympy.Min: ExpressionOp.MIN,
    sympy.Max: ExpressionOp.MAX,
    functions.Min: ExpressionOp.MIN,
    functions.Max: ExpressionOp.MAX,
    sympy.And: ExpressionOp.MUL,
    sympy.Or: ExpressionOp.MAX,
}


class ExpressionTable:
    """Expressions as records of the file: `add(op, a, b, constant)` appends one and gives its index. symbols: their
    indices in the file. Every expression has a value for all sizes in `ranges`: a divisor that may be 0 counts as 1,
    and `conditions` has what a call must meet instead."""

    def __init__(self, add: Any, symbols: dict[sympy.Symbol, int], ranges: Mapping[sympy.Symbol, ValueRanges]):
        self._add = add
        self._symbols = symbols
        self._ranges = dict(ranges)
        self._least: dict[sympy.Basic, Any] = {}
        self.conditions: list[sympy.Basic] = []
        self._known: dict[sympy.Basic, int] = {}

    def index(self, expr: sympy.Basic) -> int:
        if expr not in self._known:
            self._known[expr] = self._make(expr)
        return self._known[expr]

    def _make(self, expr: sympy.Basic) -> int:
        if expr in (sympy.true, sympy.false):
            return self._add(ExpressionOp.CONSTANT, 0, 0, int(bool(expr)))
        if expr.is_Integer:
            if not -(1 << 63) <= int(expr) < 1 << 63:
                raise ExportError(f"the size {expr} is too large")
            return self._add(ExpressionOp.CONSTANT, 0, 0, int(expr))
        if expr in self._symbols:
            return self._add(ExpressionOp.SYMBOL, self._symbols[expr], 0, 0)
        for kind, op in _CHAINS.items():
            if isinstance(expr, kind):
                return self._chain(op, expr.args)
        if isinstance(expr, NotEmpty):
            return self._chain(ExpressionOp.MIN, (*expr.args, sympy.Integer(1)))
        if isinstance(expr, NotNegative):
            return self._chain(ExpressionOp.MAX, (*expr.args, sympy.Integer(0)))
        if isinstance(expr, sympy.Not):
            return self._chain(ExpressionOp.SUB, (sympy.Integer(1), *expr.args))
        if isinstance(expr, (sympy.Gt, sympy.Ge)):
            return self._chain(ExpressionOp.LT if isinstance(expr, sympy.Gt) else ExpressionOp.LE, expr.args[::-1])
        if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and 0 < expr.exp <= 16:
            return self._chain(ExpressionOp.MUL, [expr.base] * int(expr.exp))
        for kind, op in _BINARY.items():
            if isinstance(expr, kind):
                right = self._divisor(expr.args[1]) if kind in _DIVISIONS else self.index(expr.args[1])
                return self._add(op, self.index(expr.args[0]), right, 0)
        raise ExportError(f"the size {expr} has an operation ({type(expr).__name__}) that a file cannot carry")

    def _chain(self, op: int, args: Any) -> int:
        first, *rest = args
        index = self.index(first)
        for arg in rest:
            index = self._add(op, index, self.index(arg), 0)
        return index

    def _divisor(self, expr: sympy.Basic) -> int:
        if bound_sympy(expr, self._ranges).upper <= -1 or not self.require(expr, 1):
            return self.index(expr)
        return self._add(ExpressionOp.MAX, self.index(expr), self.index(sympy.Integer(1)), 0)

    def require(self, expr: sympy.Basic, least: int) -> bool:
        """Makes it a condition that the expression is at least so much, unless the ranges imply it; whether they do
        not."""
        if expr not in self._least:
            self._least[expr] = bound_sympy(without_functions(expr), self._ranges).lower
        if self._least[expr] >= least:
            return False
        condition = sympy.Ge(expr, least, evaluate=False)  # upstream's symbols claim to be positive
        if condition not in self.conditions:
            self.conditions.append(condition)
        return True
