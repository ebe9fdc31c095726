# SPDX-License-Identifier: BSD-3-Clause
"""Which TileArithmetic or pointwise formula stands for an op of MLIR's dialects arith and math."""

from __future__ import annotations

ARITHMETIC = {
    "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.divsi": "div", "arith.divui": "div_unsigned",
    "arith.remsi": "rem", "arith.remui": "rem_unsigned", "arith.minsi": "min", "arith.maxsi": "max",
    "arith.minui": "min_unsigned", "arith.maxui": "max_unsigned", "arith.andi": "and", "arith.ori": "or",
    "arith.xori": "xor", "arith.shli": "shl", "arith.shrsi": "shr", "arith.shrui": "shr_unsigned",
    "tt.mulhiui": "mul_high_unsigned", "arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul",
    "arith.divf": "div", "tt.precise_divf": "div", "arith.remf": "rem", "arith.minimumf": "min",
    "arith.maximumf": "max", "arith.minnumf": "min_number", "arith.maxnumf": "max_number",
}  # fmt: skip

INTEGER_PREDICATES = {
    "eq": "eq", "ne": "ne", "slt": "lt", "sle": "le", "sgt": "gt", "sge": "ge", "ult": "lt_unsigned",
    "ule": "le_unsigned", "ugt": "gt_unsigned", "uge": "ge_unsigned",
}  # fmt: skip
# An unordered predicate holds where the opposite ordered one does not: (kind, whether it is inverted).
FLOAT_PREDICATES = {
    "oeq": ("eq", False), "ogt": ("gt", False), "oge": ("ge", False), "olt": ("lt", False), "ole": ("le", False),
    "one": ("less_or_greater", False), "ord": ("ordered", False), "ueq": ("less_or_greater", True),
    "ugt": ("le", True), "uge": ("lt", True), "ult": ("ge", True), "ule": ("gt", True), "une": ("ne", False),
    "uno": ("ordered", True),
}  # fmt: skip

# Of one floating operand, and of two: names of pointwise kernels.
FORMULAS = {
    "math.exp2": "exp2", "math.log": "log", "math.log2": "log2", "math.log10": "log10",
    "math.log1p": "log1p", "math.expm1": "expm1", "math.sin": "sin", "math.cos": "cos", "math.tan": "tan",
    "math.sinh": "sinh", "math.cosh": "cosh", "math.tanh": "tanh", "math.asin": "asin", "math.acos": "acos",
    "math.atan": "atan", "math.sqrt": "sqrt", "math.rsqrt": "rsqrt", "math.erf": "erf", "math.floor": "floor",
    "math.ceil": "ceil", "math.trunc": "trunc", "math.absf": "abs", "math.roundeven": "round", "arith.negf": "neg",
    "tt.precise_sqrt": "sqrt", "math.atan2": "atan2", "math.copysign": "copysign", "math.powf": "pow_tensor_tensor",
}  # fmt: skip

# libdevice, whose functions Triton names by the symbols of NVIDIA's library: those of F32 end with f.
LIBDEVICE = {
    "exp": "exp", "exp2": "exp2", "exp10": "", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "erfcx": "special_erfcx",
    "lgamma": "lgamma", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round", "nearbyint": "round",
    "fabs": "abs", "atan2": "atan2", "pow": "pow_tensor_tensor", "hypot": "hypot", "fmod": "fmod",
    "copysign": "copysign", "nextafter": "nextafter", "j0": "special_bessel_j0", "j1": "special_bessel_j1",
    "y0": "special_bessel_y0", "y1": "special_bessel_y1", "cyl_bessel_i0": "i0", "cyl_bessel_i1": "special_i1",
    "normcdfinv": "special_ndtri",
}  # fmt: skip
