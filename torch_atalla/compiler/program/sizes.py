# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that the caller of a program determines.

A symbol is the size of a dimension of an input, within a range. The graph carries expressions of symbols (SymInt).
The linear program carries `Size`s: ints, so that whoever only plans need not know, with the expression that the file
will hold. The int is the value under one assignment, the planning assignment: every bounded symbol at its upper bound,
every other one at the size of the example input.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, PythonMod, ToFloat, TruncToInt
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_atalla.loadable.errors import NotNativeError

from .size_functions import NotEmpty, NotNegative, without_functions

SIZE_OF_DATA = "dynamic output size, of data (torch.nonzero_static, or torch.where with the mask, has a fixed one)"
NMS_SIZE = "dynamic output size, of data (torch.ops.atalla.nms_static has a fixed one)"
UNBOUNDED = (1 << 47) - 1  # the largest size that the format knows


def size_of_data(target: Any) -> str:
    """The reason not to take an op whose result has a size that depends on data."""
    return NMS_SIZE if str(target) == "torchvision.nms.default" else SIZE_OF_DATA


def normal_form(expr: sympy.Basic) -> sympy.Basic:
    """With quotients in place of integer divisions that leave no remainder: upstream keeps (n * n) // n, which is n
    where one symbol is the size of two dimensions."""
    if expr.has(TruncToInt):
        expr = expr.replace(lambda part: isinstance(part, TruncToInt), _scaled)
    return expr.replace(lambda part: isinstance(part, FloorDiv), _quotient) if expr.has(FloorDiv) else expr


def _scaled(truncated: sympy.Basic) -> sympy.Basic:
    """A size times a factor such as 0.5 or 1.5, of F.interpolate, in integers. Other factors stay: their product with
    a size is rounded before it is truncated."""
    factors = sympy.Mul.make_args(truncated.args[0])
    sizes = [factor.args[0] for factor in factors if isinstance(factor, ToFloat)]
    numbers = [factor for factor in factors if factor.is_number]
    if len(sizes) != 1 or len(sizes) + len(numbers) != len(factors):
        return truncated
    numerator, denominator = float(sympy.prod(numbers)).as_integer_ratio()
    exact = 0 < numerator < 1 << 16 and denominator < 1 << 16
    return FloorDiv(numerator * sizes[0], denominator) if exact else truncated


def _quotient(division: sympy.Basic) -> sympy.Basic:
    """The polynomial with integer coefficients that the division gives, or the division, without whole multiples of a
    number: (n + 2) // 2 is n // 2 + 1. Divisions inside count as symbols: of an image of n // 2 by n // 2 pixels, one
    side is the size of two dimensions, too. One division within another by a number is one: ((n + 1) // 2 + 1) // 2 is
    (n + 3) // 4."""
    top, bottom = division.args
    inner = [part for part in sympy.Add.make_args(top) if isinstance(part, FloorDiv) and part.args[1].is_Integer]
    if len(inner) == 1 and bottom.is_Integer and bottom > 0 and inner[0].args[1] > 0:
        dividend, divisor = inner[0].args
        top, bottom = sympy.expand(dividend + (top - inner[0]) * divisor), divisor * bottom
        division = FloorDiv(top, bottom)
        if not isinstance(division, FloorDiv):
            return division
    parts = {part: sympy.Dummy(integer=True) for arg in (top, bottom) for part in arg.atoms(FloorDiv)}
    names = {name: part for part, name in parts.items()}
    numerator, denominator = (arg.xreplace(parts) for arg in (top, bottom))
    if not all(part.is_polynomial(*part.free_symbols) for part in (numerator, denominator)):
        return division
    quotient = sympy.cancel(numerator / denominator)
    symbols = sorted(quotient.free_symbols, key=str)
    if not quotient.is_polynomial(*symbols):
        return division
    if denominator.is_Integer and denominator > 1 and symbols:
        terms = sympy.Poly(numerator, *symbols).terms()
        if all(c.is_integer for _, c in terms):
            whole = sum(c // denominator * sympy.prod(s**n for s, n in zip(symbols, powers)) for powers, c in terms)
            rest = sympy.expand(numerator - denominator * whole)
            return (whole + (FloorDiv(rest, denominator) if rest != 0 else 0)).xreplace(names)
    integral = all(c.is_integer for c in (sympy.Poly(quotient, *symbols).coeffs() if symbols else [quotient]))
    return quotient.xreplace(names) if integral else division


def limits(bounds: ValueRanges) -> tuple[int, int]:
    """The least and the largest size within bounds; UNBOUNDED where they have no upper one."""
    lower, upper = (int(n) if n.is_Integer else None for n in (bounds.lower, bounds.upper))
    return max(0, lower or 0), UNBOUNDED if upper is None else min(upper, UNBOUNDED)


@dataclass(frozen=True)
class Symbol:
    """Dimension `dim` of input `input` has the size multiplier * symbol + offset."""

    symbol: sympy.Symbol
    input: int
    dim: int
    min: int
    max: int  # UNBOUNDED: no bound
    multiplier: int
    offset: int
    value: int  # under the planning assignment

    @property
    def bounded(self) -> bool:
        return self.max < UNBOUNDED


@dataclass
class Symbols:
    """The symbols of a program and the conditions on them."""

    symbols: list[Symbol] = field(default_factory=list)
    guards: list[tuple[sympy.Basic, str]] = field(default_factory=list)
    shape_env: Any = None
    fake_mode: Any = None
    strides: dict[sympy.Symbol, sympy.Integer] = field(default_factory=dict)  # symbols of strides alone: the example's
    checked_by_caller: bool = (
        False  # whether the caller checks all guards of the ShapeEnv before a call, as Dynamo does
    )

    @property
    def bounded(self) -> bool:
        """Whether every size has an upper bound, so that memory can be planned."""
        return all(symbol.bounded for symbol in self.symbols)

    def replace(self, expr: Any) -> sympy.Basic:
        """With what the export knows, and with the strides of the example inputs."""
        known = expr if self.shape_env is None else self.shape_env.replace(expr)
        return normal_form(sympy.sympify(known).xreplace(self.strides))

    def assignment(self) -> dict[sympy.Symbol, int]:
        return {symbol.symbol: symbol.value for symbol in self.symbols}

    def planned(self, expr: sympy.Basic) -> int:
        """The value under the planning assignment."""
        numbers = {symbol: sympy.Integer(value) for symbol, value in self.assignment().items()}
        return int(expr.xreplace(numbers).doit())

    def allow(self, values: Sequence[int]) -> bool:
        """Whether the conditions hold for these values of the symbols, in their order."""
        numbers = {symbol.symbol: value for symbol, value in zip(self.symbols, values, strict=True)}
        return all(guard.xreplace(numbers) != False for guard, _ in self.guards)  # noqa: E712 (sympy's false too)

    def ranges(self) -> dict[sympy.Symbol, ValueRanges]:
        return {symbol.symbol: ValueRanges(symbol.min, symbol.max) for symbol in self.symbols}

    def least(self, value: int) -> int:
        """A lower bound of a size for all sizes that a call may have."""
        if not isinstance(value, Size):
            return value
        return limits(bound_sympy(value.expr, self.ranges()))[0]

    def expression(self, value: torch.SymInt) -> sympy.Basic:
        """In terms of the symbols. Raises NotNativeError for a size that depends on data."""
        expr = self.replace(value.node.expr)
        if not expr.free_symbols <= {symbol.symbol for symbol in self.symbols}:
            raise NotNativeError("depends on a dynamic size")
        return expr


def _operation(value: Any, expr: Any = None, *, reflected: bool = False) -> Any:
    """A method of Size: `value` of the numbers, and `expr`, if it is another function, of the expressions."""

    def method(self: Size, other: Any) -> Any:
        if not isinstance(other, int) or isinstance(other, bool):
            return NotImplemented
        numbers, expressions = (int(self), int(other)), (self.expr, expression_of(other))
        if reflected:
            numbers, expressions = numbers[::-1], expressions[::-1]
        return make_size(value(*numbers), (expr or value)(*expressions))

    return method


class Size(int):
    """A number with the expression that it is the value of. Arithmetic keeps both; equality is that of expressions."""

    expr: sympy.Basic

    def __new__(cls, value: int, expr: sympy.Basic) -> Size:
        size = super().__new__(cls, value)
        size.expr = expr
        return size

    __add__ = __radd__ = _operation(operator.add)
    __mul__ = __rmul__ = _operation(operator.mul)
    __sub__, __rsub__ = _operation(operator.sub), _operation(operator.sub, reflected=True)
    __floordiv__ = _operation(operator.floordiv, FloorDiv)
    __rfloordiv__ = _operation(operator.floordiv, FloorDiv, reflected=True)
    __mod__, __rmod__ = _operation(operator.mod, PythonMod), _operation(operator.mod, PythonMod, reflected=True)

    def __neg__(self) -> Any:
        return make_size(-int(self), -self.expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.expr == other.expr

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.expr)

    def __str__(self) -> str:
        return str(self.expr)


def make_size(value: int, expr: sympy.Basic) -> int:
    """A plain int when the expression is a constant."""
    expr = sympy.expand(expr)
    return int(expr) if expr.is_number else Size(value, expr)


def expression_of(value: int) -> sympy.Basic:
    return value.expr if isinstance(value, Size) else sympy.Integer(int(value))


_current: ContextVar[Symbols | None] = ContextVar("symbols", default=None)


@contextlib.contextmanager
def lowering_with(symbols: Symbols | None) -> Iterator[None]:
    """Meta tensors made inside may have symbolic sizes, and to_size knows what they mean."""
    if symbols is None or not (symbols.symbols or symbols.strides):
        yield
        return
    token = _current.set(symbols)
    try:
        with symbols.fake_mode:
            yield
    finally:
        _current.reset(token)


def to_size(value: int | torch.SymInt) -> int:
    """An int as it is; a SymInt as a Size. Raises NotNativeError for a size that depends on data."""
    if not isinstance(value, torch.SymInt):
        return int(value)
    symbols = _current.get()
    if (known := value.node.maybe_as_int()) is not None:  # a condition of the program has fixed it
        return int(known)
    if symbols is None:
        raise NotNativeError("depends on a dynamic size")
    expr = symbols.expression(value)
    return make_size(symbols.planned(expr), expr)


def current_symbols() -> Symbols | None:
    """Those of the program that is being lowered."""
    return _current.get()


def to_symint(value: int) -> int | torch.SymInt:
    """The opposite of to_size, for meta tensors of the program that is being lowered."""
    symbols = _current.get()
    if not isinstance(value, Size) or symbols is None:
        return int(value)
    env = symbols.shape_env
    return env.create_symintnode(value.expr, hint=int(value.expr.xreplace(env.backed_var_to_val)))


def simplified(size: int) -> int:
    """The size as it is at all values that ranges and guards leave its symbols: a number if they leave one."""
    symbols = _current.get()
    if not isinstance(size, Size) or symbols is None:
        return size
    equal = [guard.expr for guard in symbols.shape_env.guards if isinstance(guard.expr, sympy.Eq)]
    expr = size.expr.xreplace({known.lhs: known.rhs for known in equal if known.rhs.is_Integer})
    bounds = bound_sympy(expr, symbols.ranges())
    return make_size(int(size), bounds.lower if bounds.lower == bounds.upper else expr)


def same_sizes(found: Sequence[int], exported: Sequence[int]) -> bool:
    """Upstream's meta functions replace an expression of symbols by its only value in some results, not in all."""
    return tuple(found) == tuple(exported) or tuple(map(simplified, found)) == tuple(map(simplified, exported))


def to_bytes(value: int | torch.SymInt) -> int:
    """As to_size, for the bytes of a piece of memory: of bounded sizes, the int is the most that they can need."""
    return bounded_bytes(to_size(value))


def bounded_bytes(size: int) -> int:
    """The bytes of a piece of memory; of bounded sizes, the int is the most that they can need."""
    symbols = _current.get()
    if not isinstance(size, Size) or symbols is None or not symbols.bounded:
        return size
    upper = bound_sympy(size.expr, symbols.ranges()).upper
    return Size(int(upper), size.expr) if upper.is_Integer else size


def not_negative(size: int, sizes: Sequence[int]) -> int:
    """The bytes of a tensor with gaps, an expression that may be any number where one of the sizes is 0: there, 0."""
    symbols = _current.get()
    if not isinstance(size, Size) or symbols is None:
        return size
    for number in sizes:
        if isinstance(number, Size) and symbols.least(number) < 1:
            size = Size(int(size) if int(number) else 0, size.expr * NotEmpty(number.expr))
    if bound_sympy(without_functions(size.expr), symbols.ranges()).lower >= 0:
        return size
    return Size(max(int(size), 0), NotNegative(size.expr))


def is_symbolic(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
