# SPDX-License-Identifier: BSD-3-Clause
"""Functions of FP32 values on the scalar core, which adds, multiplies, inverts and takes roots, and nothing else.

Errors are below 2^-20 of the result unless a docstring says otherwise, so that a rounding to BF16 hides them.
"""

from __future__ import annotations

from math import log, pi

from .values import INFINITY, SIGN, Core, Value

LN2 = log(2.0)
# ln 2 in two parts, the first of which has 15 bits, so that its multiples up to 2^8 are exact (Cody and Waite).
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723212e-6


def polynomial(core: Core, x: Value, *coefficients: float) -> Value:
    """By Horner's rule, highest power first."""
    total = core.constant(coefficients[0], "f")
    for coefficient in coefficients[1:]:
        total = total * x + float(coefficient)
    return total


def floor(core: Core, x: Value) -> Value:
    """Values beyond 2^23 have no fraction."""
    whole = trunc(core, x)
    return keep_zero_sign(core, core.select(whole > x, whole - 1.0, whole), x)


def ceil(core: Core, x: Value) -> Value:
    whole = trunc(core, x)
    return keep_zero_sign(core, core.select(whole < x, whole + 1.0, whole), x)


def trunc(core: Core, x: Value) -> Value:
    small = core.magnitude(x) < float(1 << 23)
    cut = core.convert(core.new("bfts.s", "i", x), "f")
    return keep_zero_sign(core, core.select(small, cut, x), x)


def round_even(core: Core, x: Value) -> Value:
    """To the nearest integer, ties to even: adding 1.5 x 2^23 moves the fraction out of the number."""
    magic = float(3 << 22)
    small = core.magnitude(x) < float(1 << 22)
    return keep_zero_sign(core, core.select(small, (x + magic) - magic, x), x)


def sign_of(core: Core, x: Value) -> Value:
    """The bit alone."""
    return x.bitwise("and.s", core.bits(SIGN, "f"))


def with_sign(core: Core, size: Value, x: Value) -> Value:
    """size >= 0 with the sign of x."""
    return size.bitwise("or.s", sign_of(core, x))


def odd(core: Core, x: Value, size: Value) -> Value:
    """An odd function of x whose magnitude is `size`. Of a NaN: x."""
    sign = sign_of(core, x)
    return core.select(core.is_nan(x), x, size.bitwise("or.s", sign))


def keep_zero_sign(core: Core, result: Value, x: Value) -> Value:
    """A result of 0 takes the sign of x."""
    sign = sign_of(core, x)
    return core.select(core.nonzero(result), result, sign)


def exp(core: Core, x: Value) -> Value:
    """2^n e^r with |r| <= ln(2) / 2. Results below 2^-126 become 0."""
    bounded = core.select(x > 89.0, 89.0, core.select(x < -88.0, -88.0, x))
    n = round_even(core, bounded * (1 / LN2))
    r = (bounded - n * LN2_HIGH) - n * LN2_LOW
    fraction = polynomial(core, r, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)
    # In two steps, since 2^128 is no FP32.
    power = core.new("bfts.s", "i", n)
    half = power.shifted("sra.s", 1)
    result = fraction * power_of_two(core, half) * power_of_two(core, power - half)
    result = core.select(x < -87.33, 0.0, result)
    result = core.select(x > 88.7228, core.bits(INFINITY, "f"), result)
    return core.select(core.is_nan(x), x, result)


def power_of_two(core: Core, n: Value) -> Value:
    return (n + 127).shifted("sll.s", 23).as_kind("f")


def log_e(core: Core, x: Value) -> Value:
    """log(m) + n ln 2 with m in [sqrt(1/2), sqrt(2)), and log(m) = 2 artanh(s), s = (m - 1) / (m + 1)."""
    subnormal = core.magnitude(x) < 1.1754944e-38
    bits = core.select(subnormal, x * 2.0**64, x).as_kind("i")
    n = (bits - core.bits(0x3F3504F3)).shifted("sra.s", 23)
    m = (bits - n.shifted("sll.s", 23)).as_kind("f")
    n = core.select(subnormal, n - 64, n)
    s = (m - 1.0) / (m + 1.0)
    square = s * s
    series = polynomial(core, square, 2 / 9, 2 / 7, 2 / 5, 2 / 3) * square * s + s * 2.0
    result = core.convert(n, "f") * LN2_HIGH + (core.convert(n, "f") * LN2_LOW + series)
    infinity = core.bits(INFINITY, "f")
    result = core.select(x.equals(infinity), infinity, result)
    result = core.select(x.equals(0.0), -infinity, result)
    result = core.select(x < 0.0, core.bits(0x7FC00000, "f"), result)
    return core.select(core.is_nan(x), x, result)


def log1p(core: Core, x: Value) -> Value:
    """log(1 + x), corrected by what 1 + x lost; x itself where that is all of it."""
    u = x + 1.0
    lost = x - (u - 1.0)
    corrected = log_e(core, u) + lost / u
    special = u.equals(core.bits(INFINITY, "f")) | ~(u > 0.0)
    return core.select(u.equals(1.0), x, core.select(special, log_e(core, u), corrected))


def expm1(core: Core, x: Value) -> Value:
    near = x * polynomial(core, x, 1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0)
    return core.select(core.magnitude(x) < 0.35, near, exp(core, x) - 1.0)


def tanh(core: Core, x: Value) -> Value:
    """sign(x) (1 - e) / (1 + e) with e = exp(-2 |x|), by expm1 so that small x keep their digits."""
    e = expm1(core, core.magnitude(x) * -2.0)
    return odd(core, x, -e / (e + 2.0))


def sigmoid(core: Core, x: Value) -> Value:
    e = exp(core, -core.magnitude(x))
    return core.select(x < 0.0, e, 1.0) / (e + 1.0)


def sine(core: Core, x: Value, quarter: int = 0) -> Value:
    """sin(x + quarter pi / 2), by |r| <= pi / 4. Of |x| up to 10^5; beyond it the error grows with x."""
    n = round_even(core, x * (2 / pi))
    # pi / 2 in three parts (Cody and Waite).
    r = ((x - n * 1.5703125) - n * 4.837512969970703125e-4) - n * 7.54978995489188216e-8
    square = r * r
    odd = r + r * square * polynomial(core, square, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6)
    even = polynomial(core, square, 1 / 40320, -1 / 720, 1 / 24, -0.5, 1.0)
    place = core.new("bfts.s", "i", n) + quarter
    one = core.bits(1)
    result = core.select((place & one).as_kind("b"), even, odd)
    turned = core.select((place.shifted("srl.s", 1) & one).as_kind("b"), -result, result)
    finite = core.magnitude(x) < core.bits(INFINITY, "f")
    return core.select(finite, turned, core.bits(0x7FC00000, "f"))


def erf(core: Core, x: Value) -> Value:
    """Abramowitz and Stegun 7.1.26, whose absolute error is 1.5e-7; its series near 0."""
    size = core.magnitude(x)
    t = 1.0 / (size * 0.3275911 + 1.0)
    p = polynomial(core, t, 1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592) * t
    far = 1.0 - p * exp(core, -(size * size))
    square = size * size
    near = size * polynomial(core, square, 2 / 3 / pi**0.5 / 14 * -1, 1 / 5 / pi**0.5, -2 / 3 / pi**0.5, 2 / pi**0.5)
    return odd(core, x, core.select(size < 0.3, near, far))


def arc_tangent(core: Core, x: Value) -> Value:
    """By |r| <= tan(pi / 8): atan(x) = pi / 2 - atan(1 / x) and atan(x) = pi / 4 + atan((x - 1) / (x + 1))."""
    size = core.magnitude(x)
    far = size > 1.0
    r = core.select(far, 1.0 / size, size)
    middle = r > 0.41421357
    r = core.select(middle, (r - 1.0) / (r + 1.0), r)
    square = r * r
    value = r + r * square * polynomial(core, square, 1 / 13, -1 / 11, 1 / 9, -1 / 7, 1 / 5, -1 / 3)
    value = core.select(middle, value + pi / 4, value)
    return odd(core, x, core.select(far, pi / 2 - value, value))


def arc_tangent_of_point(core: Core, y: Value, x: Value) -> Value:
    """atan2(y, x)."""
    size_y, size_x = core.magnitude(y), core.magnitude(x)
    swap = size_y > size_x
    low, high = core.select(swap, size_x, size_y), core.select(swap, size_y, size_x)
    both = low.equals(high) & (high > 0.0)
    ratio = core.select(both, 1.0, core.select(high.equals(0.0), 0.0, low / high))
    angle = arc_tangent(core, ratio)
    angle = core.select(swap, pi / 2 - angle, angle)
    angle = core.select(core.wrap(core.b.s("srli.s", x.reg, 31), "b"), pi - angle, angle)
    return core.select(core.unordered(x, y), core.bits(0x7FC00000, "f"), with_sign(core, angle, y))


def arc_sine(core: Core, x: Value) -> Value:
    """atan(x / sqrt((1 - x) (1 + x)))."""
    return arc_tangent_of_point(core, x, square_root(core, (1.0 - x) * (x + 1.0)))


def power(core: Core, x: Value, y: Value) -> Value:
    """e^(y log |x|), with the sign that integral y give a negative x, and the cases of C's pow. The error grows with
    the logarithm of the result: 2^-16 at 2^127."""
    size = core.magnitude(x)
    result = exp(core, y * log_e(core, size))
    integral = trunc(core, y).equals(y)
    odd = integral & ~trunc(core, y * 0.5).equals(y * 0.5)
    result = core.select((x < 0.0) & odd, -result, result)
    result = core.select((x < 0.0) & ~integral & (size < core.bits(INFINITY, "f")), core.bits(0x7FC00000, "f"), result)
    result = core.select(y.equals(0.0) | x.equals(1.0), 1.0, result)
    return core.select(y.equals(1.0), x, result)


def square_root(core: Core, x: Value) -> Value:
    return core.new("sqrt.bf", "f", x)


def inverse_root(core: Core, x: Value) -> Value:
    return core.new("rcp.bf", "f", square_root(core, x))
