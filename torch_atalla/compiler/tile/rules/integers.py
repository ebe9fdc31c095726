# SPDX-License-Identifier: BSD-3-Clause
"""libdevice's functions of integers, and of the bits of floating-point numbers."""

from __future__ import annotations

from collections.abc import Callable

from .expressions import Expr

# Bits of a byte that are set, of each of the masks below.
_ALTERNATE = {1: 0x55, 2: 0x33, 4: 0x0F}


def _mask(x: Expr, pattern: int) -> int:
    """The byte in all bytes of the type, as a signed number."""
    return _signed(pattern * ((1 << x.width) // 255), x.width)


def _signed(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def _right(x: Expr, by: int) -> Expr:
    return x.op("shr_unsigned", by)


def _popc(x: Expr) -> Expr:
    """Bits that are set: sums of pairs, of fours, of bytes, of all."""
    x = x - (_right(x, 1) & _mask(x, 0x55))
    x = (x & _mask(x, 0x33)) + (_right(x, 2) & _mask(x, 0x33))
    x = (x + _right(x, 4)) & _mask(x, 0x0F)
    return _right(x * _mask(x, 0x01), x.width - 8)


def _clz(x: Expr) -> Expr:
    by = 1
    while by < x.width:
        x, by = x | _right(x, by), by * 2
    return _popc(~x)


def _brev(x: Expr) -> Expr:
    for by, pattern in _ALTERNATE.items():
        x = (_right(x, by) & _mask(x, pattern)) | ((x & _mask(x, pattern)) << by)
    out = x & 0xFF
    for _ in range(x.width // 8 - 1):
        x = _right(x, 8)
        out = (out << 8) | (x & 0xFF)
    return out


def _mulhi(a: Expr, b: Expr) -> Expr:
    top = a.op("mul_high_unsigned", b)
    zero = a.like(0)
    return top - a.flag("lt", 0).where(b, zero) - b.flag("lt", 0).where(a, zero)


def _low24(x: Expr) -> Expr:
    return (x << 8) >> 8


def _apart(below: str) -> Callable[..., Expr]:
    return lambda a, b, c: a.flag(below, b).where(b - a, a - b) + c


def _byte_perm(a: Expr, b: Expr, selector: Expr) -> Expr:
    """Four of the eight bytes of a and b, which three bits each of the selector's nibbles name."""
    both = a.unsigned("i64") | (b.unsigned("i64") << 32)
    out = a.like(0).to("i64")
    for i in range(4):
        place = ((selector >> (4 * i)) & 7).to("i64") << 3
        out = out | ((both.op("shr_unsigned", place) & 0xFF) << (8 * i))
    return out.to("i32")


INTEGERS: dict[str, Callable[..., Expr]] = {
    **dict.fromkeys(("popc", "popcll"), _popc),
    **dict.fromkeys(("clz", "clzll"), _clz),
    # The place of the lowest bit, from 1 on; 0 if none is set.
    **dict.fromkeys(("ffs", "ffsll"), lambda x: x.flag("eq", 0).where(0, _popc(x ^ (x - 1)))),
    **dict.fromkeys(("brev", "brevll"), _brev),
    **dict.fromkeys(("mulhi", "mul64hi"), _mulhi),
    **dict.fromkeys(("umulhi", "umul64hi"), lambda a, b: a.op("mul_high_unsigned", b)),
    **dict.fromkeys(("abs", "llabs"), lambda x: x.op("max", -x)),
    "mul24": lambda a, b: _low24(a) * _low24(b),
    "umul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "sad": _apart("lt"),
    "usad": _apart("lt_unsigned"),
    "hadd": lambda a, b: (a & b) + ((a ^ b) >> 1),
    "uhadd": lambda a, b: (a & b) + _right(a ^ b, 1),
    "rhadd": lambda a, b: (a | b) - ((a ^ b) >> 1),
    "urhadd": lambda a, b: (a | b) - _right(a ^ b, 1),
    "byte_perm": _byte_perm,
    **dict.fromkeys(("int_as_float", "uint_as_float"), lambda x: x.bits("f32")),
    **dict.fromkeys(("float_as_int", "float_as_uint"), lambda x: x.bits("i32")),
    "longlong_as_double": lambda x: x.bits("f64"),
    "double_as_longlong": lambda x: x.bits("i64"),
    "double2loint": lambda x: x.bits("i64").to("i32"),
    "double2hiint": lambda x: (x.bits("i64") >> 32).to("i32"),
    "hiloint2double": lambda high, low: ((high.to("i64") << 32) | low.unsigned("i64")).bits("f64"),
}
