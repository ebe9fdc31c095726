# SPDX-License-Identifier: BSD-3-Clause
"""Functions of libdevice, by the symbols that Triton has for them: formulas of the chip, or made of several ops.

Those of float32 end with f, or begin with f; those of float64 have the same names without it, or begin with d.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .. import arithmetic
from ..ir import Op
from ..lower import Lowering, Tile, rule
from .expressions import Expr
from .integers import INTEGERS
from .rounding import ROUNDING

Function = Callable[..., Expr]


@rule("tt.extern_elementwise")
def _library_function(low: Lowering, op: Op) -> list[Tile]:
    symbol = str(op.attributes["symbol"])
    name = symbol.removeprefix("__nv_")
    sources = [Expr(low, low.of(v)) for v in op.operands]
    single = sources[-1 if name.startswith(("jn", "yn")) else 0].element == "f32"
    plain = name[:-1] if single and name.endswith("f") and name != "erf" else name
    found = FUNCTIONS.get(plain)
    if found is None:
        formula = arithmetic.LIBDEVICE.get(plain.removeprefix("fast_"))
        if sources[0].element not in ("f32", "f64") or not formula:
            raise op.fail(f"the library function `{symbol}` has no counterpart on this device")
        return [sources[0].formula(formula, *sources[1:]).tile]
    out = found(*sources)
    wanted = op.results[0].type.element
    return [(out if out.element == wanted else out.to(wanted)).tile]


def _binary(kind: str) -> Function:
    return lambda a, b: a.op(f"{kind}_number" if kind in ("min", "max") and a.element.startswith("f") else kind, b)


def _isinf(x: Expr) -> Expr:
    return x.formula("abs").flag("eq", math.inf)


def _finite(x: Expr) -> Expr:
    return x.formula("abs").flag("lt", math.inf)


def _signbit(x: Expr) -> Expr:
    return x.bits("i32" if x.element == "f32" else "i64").flag("lt", 0)


def _round(x: Expr) -> Expr:
    """To nearest, halves away from 0."""
    whole = x.formula("trunc")
    far = (x - whole).formula("abs").flag("ge", 0.5)
    return far.where(whole + x.like(1.0).formula("copysign", x), whole)


def _sinpi(x: Expr) -> Expr:
    turn = x - (x * 0.5).formula("round") * 2.0  # in [-1, 1], exactly
    size = turn.formula("abs")
    size = size.flag("gt", 0.5).where(size.like(1.0) - size, size)
    return (size * math.pi).formula("sin").formula("copysign", turn)


def _cospi(x: Expr) -> Expr:
    size = (x - (x * 0.5).formula("round") * 2.0).formula("abs")
    near_half = (size.like(0.5) - size) * math.pi
    far = size.flag("gt", 0.75).where(-((size.like(1.0) - size) * math.pi).formula("cos"), near_half.formula("sin"))
    return size.flag("lt", 0.25).where((size * math.pi).formula("cos"), far)


def _norm3d(a: Expr, b: Expr, c: Expr) -> Expr:
    return a.formula("hypot", b).formula("hypot", c)


def _cbrt(x: Expr) -> Expr:
    wide = x.to("f64").formula("abs")
    root = wide.formula("pow_tensor_tensor", wide.like(1 / 3))
    better = root - (root * root * root - wide) / (root * root * 3.0)  # a step of Newton's method
    better = (wide.flag("gt", 0.0) & _finite(wide)).where(better, root)
    return better.formula("copysign", x.to("f64")).to(x.element)


def _power_of_two(n: Expr) -> Expr:
    """2^n as float64, for n from -1022 to 1023."""
    return ((n.to("i64") + 1023) << 52).bits("f64")


def _ldexp(x: Expr, n: Expr) -> Expr:
    least = 1000 if x.element == "f32" else 3000
    n = n.op("max", -least).op("min", least)
    third = n / 3
    part = _power_of_two(third)
    return (x.to("f64") * part * part * _power_of_two(n - third * 2)).to(x.element)


def _exponent(x: Expr) -> Expr:
    """The exponent of a finite number that is not 0, as int64."""
    wide = x.to("f64")
    small = wide.formula("abs").flag("lt", 2.0**-1000)
    bits = small.where(wide * 2.0**60, wide).bits("i64")
    field = ((bits >> 52) & 0x7FF) - 1023
    return small.where(field - 60, field)


def _ilogb(x: Expr) -> Expr:
    least = x.is_nan() | x.flag("eq", 0.0)
    found = least.where(-(1 << 31), _exponent(x))
    return _isinf(x).where((1 << 31) - 1, found).to("i32")


def _logb(x: Expr) -> Expr:
    found = x.flag("eq", 0.0).where(-math.inf, _exponent(x).to(x.element))
    return _finite(x).where(found, x * x)  # inf or NaN


def _remainder(x: Expr, y: Expr) -> Expr:
    """x - n y for the integer n that is nearest to x / y, exactly."""
    size = y.formula("abs")
    rest = x.formula("abs").formula("fmod", size + size)
    above = (rest + rest).flag("gt", size)
    once = above.where(rest - size, rest)
    twice = (above & (once + once).flag("ge", size)).where(once - size, once)
    return _signbit(x).where(-twice, twice)


FUNCTIONS: dict[str, Function] = {
    **INTEGERS,
    **ROUNDING,
    **dict.fromkeys(("fmul_rn", "dmul_rn"), _binary("mul")),
    **dict.fromkeys(("fdiv_rn", "ddiv_rn", "div_rn", "fast_fdivide"), _binary("div")),
    **dict.fromkeys(("fadd_rn", "dadd_rn"), _binary("add")),
    **dict.fromkeys(("fsub_rn", "dsub_rn"), _binary("sub")),
    **dict.fromkeys(("fmin", "min"), _binary("min")),
    **dict.fromkeys(("fmax", "max"), _binary("max")),
    **dict.fromkeys(("fma", "fma_rn", "fmaf_rn"), lambda a, b, c: a.fma(b, c)),
    **dict.fromkeys(("isnan", "isnand"), lambda x: x.is_nan()),
    **dict.fromkeys(("isinf", "isinfd"), _isinf),
    **dict.fromkeys(("finite", "isfinited"), _finite),
    **dict.fromkeys(("signbit", "signbitd"), _signbit),
    **dict.fromkeys(("exp10", "fast_exp10"), lambda x: x.like(10.0).formula("pow_tensor_tensor", x)),
    **dict.fromkeys(("frcp_rn", "drcp_rn"), lambda x: x.like(1.0) / x),
    **dict.fromkeys(("fsqrt_rn", "dsqrt_rn"), lambda x: x.formula("sqrt")),
    **dict.fromkeys(("ldexp", "scalbn"), _ldexp),
    "frsqrt_rn": lambda x: x.formula("rsqrt"),
    "saturate": lambda x: x.op("max_number", 0.0).op("min_number", 1.0),  # in [0, 1]; NaN is 0
    "round": _round,
    "llround": lambda x: _round(x).to("i64"),
    "llrint": lambda x: x.formula("round").to("i64"),
    "sinpi": _sinpi,
    "cospi": _cospi,
    "rhypot": lambda a, b: a.like(1.0) / a.formula("hypot", b),
    "norm3d": _norm3d,
    "rnorm3d": lambda a, b, c: a.like(1.0) / _norm3d(a, b, c),
    "cbrt": _cbrt,
    "rcbrt": lambda x: x.like(1.0) / _cbrt(x),
    "erfcinv": lambda x: -(x * 0.5).formula("special_ndtri") * math.sqrt(0.5),
    "normcdf": lambda x: (x * -math.sqrt(0.5)).formula("erfc") * 0.5,
    "powi": lambda x, n: x.to("f64").formula("pow_tensor_tensor", n.to("f64")).to(x.element),
    "fdim": lambda x, y: x.flag("le", y).where(0.0, x - y),
    "remainder": _remainder,
    "ilogb": _ilogb,
    "logb": _logb,
}
