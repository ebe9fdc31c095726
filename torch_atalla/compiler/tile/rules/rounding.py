# SPDX-License-Identifier: BSD-3-Clause
"""libdevice's functions that name how they round: to nearest (rn), to zero (rz), down (rd), up (ru)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from .expressions import Expr

TO_INTEGER = {"rn": "round", "rz": "trunc", "rd": "floor", "ru": "ceil"}
# The name of an integer type in a function's name -> bits, and whether it is unsigned.
_INTEGERS = {"int": (32, False), "uint": (32, True), "ll": (64, False), "ull": (64, True)}


def _to_integer(mode: str, width: int, unsigned: bool, x: Expr) -> Expr:
    """The nearest number that the type has; 0 for NaN."""
    whole = x.to("f64").formula(TO_INTEGER[mode])
    whole = whole.is_nan().where(0.0, whole)
    if width == 32:
        least, most = (0, (1 << 32) - 1) if unsigned else (-(1 << 31), (1 << 31) - 1)
        return whole.op("max", float(least)).op("min", float(most)).to("i64").to("i32")
    if not unsigned:
        low, high = whole.flag("lt", -(2.0**63)), whole.flag("ge", 2.0**63)
        found = (low | high).where(0.0, whole).to("i64")
        return high.where((1 << 63) - 1, low.where(-(1 << 63), found))
    whole = whole.op("max", 0.0)
    high, over = whole.flag("ge", 2.0**63), whole.flag("ge", 2.0**64)
    found = over.where(0.0, high.where(whole - 2.0**63, whole)).to("i64")
    return over.where(-1, high.where(found ^ -(1 << 63), found))


def _from_unsigned(element: str, x: Expr) -> Expr:
    """Of a number above 2^63, half of it with a sticky bit, twice."""
    half = x.op("shr_unsigned", 1) | (x & 1)
    negative = x.flag("lt", 0)
    found = negative.where(half, x).to(element)
    return negative.where(found + found, found)


def directed(mode: str, near: Expr, rest: Expr) -> Expr:
    """What was rounded to `near`, to nearest, rounded as `mode` says. The sign of `rest` is that of what is missing."""
    if mode == "rn":
        return near
    down, up = near.formula("nextafter", near.like(-math.inf)), near.formula("nextafter", near.like(math.inf))
    below, above = rest.flag("lt", 0.0), rest.flag("gt", 0.0)
    if mode == "rz":
        positive = near.flag("gt", 0.0)
        below, above = below & positive, above & near.flag("lt", 0.0)
    if mode == "ru":
        return above.where(up, near)
    if mode == "rd":
        return below.where(down, near)
    return below.where(down, above.where(up, near))


def _narrowed(mode: str, high: Expr, rest: Expr | None = None) -> Expr:
    """high + rest of float64 as float32."""
    near = high.to("f32")
    missing = high - near.to("f64")
    if rest is not None:
        missing = missing.flag("eq", 0.0).where(rest, missing)
    return directed(mode, near, missing)


def _sum_error(a: Expr, b: Expr, total: Expr) -> Expr:
    """What the sum lost, exactly (Knuth's TwoSum)."""
    part = total - a
    return (a - (total - part)) + (b - part)


def _add(mode: str, a: Expr, b: Expr) -> Expr:
    if a.element == "f64":
        total = a + b
        return directed(mode, total, _sum_error(a, b, total))
    a, b = a.to("f64"), b.to("f64")
    total = a + b
    return _narrowed(mode, total, _sum_error(a, b, total))


def _divide(mode: str, a: Expr, b: Expr) -> Expr:
    a, b = a.to("f64"), b.to("f64")
    quotient = a / b
    rest = (-quotient).fma(b, a)
    return _narrowed(mode, quotient, b.flag("lt", 0.0).where(-rest, rest))


def _square_root(mode: str, x: Expr) -> Expr:
    x = x.to("f64")
    root = x.formula("sqrt")
    return _narrowed(mode, root, (-root).fma(root, x))


def _functions() -> dict[str, Callable[..., Expr]]:
    found: dict[str, Callable[..., Expr]] = {}
    for mode in TO_INTEGER:
        for name, (width, unsigned) in _INTEGERS.items():
            for source in ("float", "double"):
                found[f"{source}2{name}_{mode}"] = functools.partial(_to_integer, mode, width, unsigned)
        found[f"int2float_{mode}"] = lambda x, mode=mode: _narrowed(mode, x.to("f64"))
        found[f"uint2float_{mode}"] = lambda x, mode=mode: _narrowed(mode, x.unsigned("i64").to("f64"))
        found[f"double2float_{mode}"] = functools.partial(_narrowed, mode)
    for mode in ("rz", "rd", "ru"):
        for letter in "fd":
            found[f"{letter}add_{mode}"] = functools.partial(_add, mode)
            found[f"{letter}sub_{mode}"] = lambda a, b, mode=mode: _add(mode, a, -b)
        # The product of two float32 is a float64.
        found[f"fmul_{mode}"] = lambda a, b, mode=mode: _narrowed(mode, a.to("f64") * b.to("f64"))
        found[f"fdiv_{mode}"] = functools.partial(_divide, mode)
        found[f"frcp_{mode}"] = lambda x, mode=mode: _divide(mode, x.like(1.0), x)
        found[f"fsqrt_{mode}"] = functools.partial(_square_root, mode)
    found["int2double_rn"] = lambda x: x.to("f64")
    found["uint2double_rn"] = lambda x: x.unsigned("i64").to("f64")
    for element, name in (("f32", "float"), ("f64", "double")):
        found[f"ll2{name}_rn"] = lambda x, element=element: x.to(element)
        found[f"ull2{name}_rn"] = functools.partial(_from_unsigned, element)
    return found


ROUNDING = _functions()
