# SPDX-License-Identifier: BSD-3-Clause
"""Between integers, between floating numbers, and between the two."""

from __future__ import annotations

import math

from ..ir import WIDTHS, Op
from ..lower import Lowering, Tile, rule
from .expressions import Expr, computes


@computes("arith.extsi", "arith.sitofp")
def _from_signed(op: Op, x: Expr) -> Expr:
    wide = x.to(op.results[0].type.element)
    return -wide if x.element == "i1" else wide


computes("arith.extui")(lambda op, x: x.unsigned(op.results[0].type.element))


@computes("arith.trunci")
def _truncate(op: Op, x: Expr) -> Expr:
    element = op.results[0].type.element
    return (x & 1 if element == "i1" else x).to(element)


computes("arith.index_cast", "arith.extf", "arith.truncf")(lambda op, x: x.to(op.results[0].type.element))


@computes("tt.fp_to_fp")
def _float_rounded(op: Op, x: Expr) -> Expr:
    element = op.results[0].type.element
    if "rtz" in op.attributes.get("words", ()) and WIDTHS[element] < x.width:
        return _toward_zero(op, x, element)
    return x.to(element)


def _toward_zero(op: Op, x: Expr, element: str) -> Expr:
    """Drops the bits that the narrower format does not have, so that the conversion is exact."""
    if x.element != "f32" or element not in ("bf16", "f16"):
        raise op.fail(f"rounding toward zero from {x.element} to {element}")
    cut = (x.bits("i32") & -(1 << (16 if element == "bf16" else 13))).bits("f32")
    if element == "f16":  # what is too large becomes the largest number
        finite = x.formula("abs").flag("lt", math.inf)
        cut = finite.where(cut.op("min", 65504.0).op("max", -65504.0), x)
    return cut.to(element)


@computes("arith.uitofp")
def _from_unsigned(op: Op, x: Expr) -> Expr:
    element = op.results[0].type.element
    if x.element != "i64":
        return x.unsigned("i64").to(element)
    # Of a number of 64 bits, half of it (the last bit still decides on the rounding), doubled.
    half = x.op("shr_unsigned", 1) | (x & 1)
    return x.flag("lt", 0).where((half.to("f64") * 2.0).to(element), x.to(element))


@computes("arith.fptosi", "arith.fptoui")
def _to_integer(op: Op, x: Expr) -> Expr:
    x, element = x.widened(), op.results[0].type.element
    if element == "i1":
        return x.flag("ne", 0.0)
    whole = x.to("i64")
    if element == "i64" and op.name == "arith.fptoui":
        whole = x.flag("ge", 2.0**63).where((x - 2.0**63).to("i64") ^ -(1 << 63), whole)
    return whole.to(element)


rule("arith.bitcast", "tt.bitcast")(lambda low, op: [low.alias(low.of(op.operands[0]), op.results[0].type)])


@rule("tt.int_to_ptr", "tt.ptr_to_int")
def _pointer(low: Lowering, op: Op) -> list[Tile]:
    x = low.of(op.operands[0])
    low.reads_addresses |= op.name == "tt.int_to_ptr"
    wide = low.unsigned(x, "i64") if x.type.element not in ("ptr", "i64") else x
    return [low.alias(wide, op.results[0].type)]
