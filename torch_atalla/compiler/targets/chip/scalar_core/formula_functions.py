# SPDX-License-Identifier: BSD-3-Clause
"""The functions that formulas may name, of floating-point numbers and of integers."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

from . import functions as f
from .values import INFINITY, Core, Value

NAN = 0x7FC00000


def extreme(largest: bool, number: bool = False) -> Callable[[Core, Value, Value], Value]:
    """The larger or the smaller. Of a number and a NaN: the NaN, or the number."""

    def function(core: Core, a: Value, b: Value) -> Value:
        a, b = core.same(a, b)
        takes_second = a < b if largest else b < a
        if a.kind == "f":
            takes_second = takes_second | core.is_nan(a if number else b)
        return core.select(takes_second, b, a)

    return function


maximum, minimum = extreme(True), extreme(False)


def _sign(core: Core, x: Value) -> Value:
    positive, negative = (core.convert(bit, x.kind) for bit in (x > 0, x < 0))
    return positive - negative


def _clamp(core: Core, x: Value, has_low: Value, low: Value, has_high: Value, high: Value) -> Value:
    x = core.select(has_low, maximum(core, x, low), x)
    return core.select(has_high, minimum(core, x, high), x)


def _remainder(core: Core, x: Value, y: Value) -> Value:
    """With the sign of y. Of an infinite y: x, or y itself if the signs differ."""
    rest = _fmod(core, x, y)
    other = (rest < 0.0) ^ (y < 0.0)
    return core.select(other & core.nonzero(rest), rest + y, rest)


def _fmod(core: Core, x: Value, y: Value) -> Value:
    """|x| - n |y| with the sign of x, which is exact for n below 2^12. Of an infinite y: x."""
    size, step = core.magnitude(x), core.magnitude(y)
    n = f.trunc(core, size / step)
    high = step.bitwise("and.s", core.bits(0xFFFFF000, "f"))
    rest = (size - n * high) - n * (step - high)
    rest = core.select(rest < 0.0, rest + step, rest)
    rest = core.select(rest >= step, rest - step, rest)
    finite = size < core.bits(INFINITY, "f")
    rest = core.select(finite & step.equals(core.bits(INFINITY, "f")), size, rest)
    # The quotient by a subnormal number may overflow. The remainder is less than that number: 0 as a BF16, nearly.
    rest = core.select(finite & (step < 1.1754944e-38) & (step > 0.0), 0.0, rest)
    return f.with_sign(core, rest, x)


def quotient(core: Core, a: Value, b: Value) -> Value:
    """a / b. The product with rcp.bf may lie beside the nearest number: 6 / 3 must not be below 2."""
    quotient = a / b
    if quotient.kind != "f":
        return quotient
    nearest = f.round_even(core, quotient)
    near = core.magnitude(quotient - nearest) < core.magnitude(nearest) * 2.0**-20
    return core.select(near & (a - nearest * b).equals(0.0), nearest, quotient)


def _div_floor(core: Core, a: Value, b: Value) -> Value:
    """(a - remainder) / b, as upstream, since a / b may round up to an integer. NaN for an infinite a, 0 or -1 for an
    infinite b."""
    quotient, infinity = a / b, core.bits(INFINITY, "f")
    whole = f.round_even(core, (a - _remainder(core, a, b)) / b)
    far = (core.magnitude(quotient) >= float(1 << 22)) | core.is_nan(quotient)
    result = f.keep_zero_sign(core, core.select(far, f.floor(core, quotient), whole), quotient)
    below = core.select(((a < 0.0) ^ (b < 0.0)) & core.nonzero(a), -1.0, 0.0)
    result = core.select(core.magnitude(b).equals(infinity), below, result)
    unknown = core.magnitude(a).equals(infinity) & core.nonzero(b)
    return core.select(unknown | core.unordered(a, b), core.bits(NAN, "f"), result)


def _hypot(core: Core, a: Value, b: Value) -> Value:
    """By the quotient of the smaller and the larger, whose square neither overflows nor vanishes. An infinity wins
    over a NaN."""
    a, b = core.magnitude(a), core.magnitude(b)
    infinity = core.bits(INFINITY, "f")
    infinite = a.equals(infinity) | b.equals(infinity)
    tiny = maximum(core, a, b) < 2.0**-64
    a, b = (core.select(tiny, x * 2.0**64, x) for x in (a, b))
    larger, smaller = maximum(core, a, b), minimum(core, a, b)
    ratio = smaller / core.select(larger.equals(0.0), 1.0, larger)
    length = larger * f.square_root(core, ratio * ratio + 1.0)
    return core.select(infinite, infinity, core.select(tiny, length * 2.0**-64, length))


def _logit(core: Core, x: Value, has_eps: Value, eps: Value) -> Value:
    bounded = core.nonzero(has_eps) & (eps >= 0.0)
    kept = core.select(bounded, core.select(x < eps, eps, core.select(x > 1.0 - eps, 1.0 - eps, x)), x)
    return core.select(kept.equals(1.0), core.bits(INFINITY, "f"), f.log_e(core, kept / (1.0 - kept)))


def _gelu_tanh_gradient(core: Core, x: Value, t: Value) -> Value:
    inner = (x * x * (3 * 0.044715) + 1.0) * (2 / pi) ** 0.5
    return (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner


def _shift(core: Core, name: str, x: Value, count: Value) -> Value:
    """A count beyond the dtype's bits shifts all of them out. Beyond the core's 32, a left shift of a 64-bit integer
    is a fault where it would lose bits."""
    bits = 64 if x.kind == "l" else 32
    inside = ~((count < 0) | (count >= bits))
    short = core.select(inside & (count < 32), count, 31)
    shifted = core.new(name, x.kind, x, short)
    if name == "sra.s":
        return shifted
    if x.kind == "l":
        kept = core.new("sra.s", "l", shifted, short).equals(x) & ((count < 32) | x.equals(0))
        core.fault_unless(kept | ~inside)
    return core.select(inside, shifted, 0)


def _integer_power(core: Core, base: Value, exponent: Value) -> Value:
    """Squares and multiplies. A negative exponent gives 1 / base, truncated."""
    left, factor, result = core.variable(exponent), core.variable(base), core.variable(core.constant(1, base.kind))
    with core.repeat_while(lambda: left.as_kind("i") > 0):
        with core.when((left & core.bits(1)).as_kind("b")):
            result.set(result * factor)
        left.set(left.shifted("srl.s", 1))
        with core.when(left.as_kind("i") > 0):
            factor.set(factor * factor)
    sign = core.select((exponent & core.bits(1)).as_kind("b"), -1, 1)
    inverse = core.select(base.equals(1), 1, core.select(base.equals(-1), sign, 0))
    return core.select(exponent < 0, core.convert(inverse, base.kind), result)


def _inverse_sinh(core: Core, x: Value) -> Value:
    """log(|x| + sqrt(x^2 + 1)), in the form that keeps small x, with the sign of x."""
    size = core.magnitude(x)
    near = f.log1p(core, size + size * size / (f.square_root(core, size * size + 1.0) + 1.0))
    return f.with_sign(core, core.select(size > 1e9, f.log_e(core, size) + log(2.0), near), x)


FLOATING: dict[str, Callable[..., Value]] = {
    "abs": Core.magnitude,
    "acos": lambda core, x: pi / 2 - f.arc_sine(core, x),
    "acosh": lambda core, x: f.log_e(core, x + f.square_root(core, x * x - 1.0)),
    "asin": f.arc_sine,
    "asinh": _inverse_sinh,
    "atan": f.arc_tangent,
    "atan2": f.arc_tangent_of_point,
    "atanh": lambda core, x: f.log1p(core, x * 2.0 / (1.0 - x)) * 0.5,
    "ceil": f.ceil,
    "clamp": _clamp,
    "copysign": lambda core, x, y: f.with_sign(core, core.magnitude(x), y),
    "cos": lambda core, x: f.sine(core, x, 1),
    "cosh": lambda core, x: (f.exp(core, x) + f.exp(core, -x)) * 0.5,
    "div_floor": _div_floor,
    "erf": f.erf,
    "erfc": lambda core, x: 1.0 - f.erf(core, x),
    "exp": f.exp,
    "exp2": lambda core, x: f.exp(core, x * log(2.0)),
    "expm1": f.expm1,
    "floor": f.floor,
    "fmax": extreme(True, number=True),
    "fmin": extreme(False, number=True),
    "fmod": _fmod,
    "gelu_tanh_gradient": _gelu_tanh_gradient,
    "hypot": _hypot,
    "isnan": Core.is_nan,
    "log": f.log_e,
    "log10": lambda core, x: f.log_e(core, x) * (1 / log(10.0)),
    "log1p": f.log1p,
    "log2": lambda core, x: f.log_e(core, x) * (1 / log(2.0)),
    "logit": _logit,
    "maximum": maximum,
    "minimum": minimum,
    "pow": f.power,
    "remainder": _remainder,
    "round": f.round_even,
    "sigmoid": f.sigmoid,
    "sign": _sign,
    "signbit": lambda core, x: core.wrap(core.b.s("srli.s", x.reg, 31), "b"),
    "sin": f.sine,
    "sinh": lambda core, x: (f.expm1(core, x) - f.expm1(core, -x)) * 0.5,
    "sqrt": f.square_root,
    "tan": lambda core, x: f.sine(core, x) / f.sine(core, x, 1),
    "tanh": f.tanh,
    "trunc": f.trunc,
}
INTEGER: dict[str, Callable[..., Value]] = {
    "abs": Core.magnitude,
    "clamp": _clamp,
    "div_floor": lambda core, a, b: core.divide(a - core.modulo(a, b), b),  # the modulo has the sign of b
    "div_trunc": Core.divide,
    "fmod": lambda core, a, b: a - core.divide(a, b) * b,
    "isnan": lambda core, x: core.bits(0, "b"),
    "maximum": maximum,
    "minimum": minimum,
    "pow": _integer_power,
    "remainder": Core.modulo,
    "shift_left": lambda core, x, count: _shift(core, "sll.s", x, count),
    "shift_right": lambda core, x, count: _shift(core, "sra.s", x, count),
    "sign": _sign,
}
