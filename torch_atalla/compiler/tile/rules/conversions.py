# SPDX-License-Identifier: BSD-3-Clause
"""Between integers, between floating numbers, and between the two."""

from __future__ import annotations

from ..ir import WIDTHS, Op, Type
from ..lower import Lowering, Tile, rule


@rule("arith.extsi")
def _extend(low: Lowering, op: Op) -> list[Tile]:
    x, element = low.of(op.operands[0]), op.results[0].type.element
    if x.type.element == "i1":
        return [low.binary("sub", low.constant(0, Type(element)), low.convert(x, element))]
    return [low.convert(x, element)]


@rule("arith.extui")
def _extend_unsigned(low: Lowering, op: Op) -> list[Tile]:
    return [low.unsigned(low.of(op.operands[0]), op.results[0].type.element)]


@rule("arith.trunci")
def _truncate(low: Lowering, op: Op) -> list[Tile]:
    x, element = low.of(op.operands[0]), op.results[0].type.element
    if element == "i1":
        x = low.binary("and", x, low.constant(1, Type(x.type.element)))
    return [low.convert(x, element)]


@rule("arith.index_cast", "arith.extf", "arith.truncf")
def _converted(low: Lowering, op: Op) -> list[Tile]:
    return [low.convert(low.of(op.operands[0]), op.results[0].type.element)]


@rule("tt.fp_to_fp")
def _float_rounded(low: Lowering, op: Op) -> list[Tile]:
    x, element = low.of(op.operands[0]), op.results[0].type.element
    if "rtz" in op.attributes.get("words", ()) and WIDTHS[element] < WIDTHS[x.type.element]:
        return [_toward_zero(low, op, x, element)]
    return [low.convert(x, element)]


def _toward_zero(low: Lowering, op: Op, x: Tile, element: str) -> Tile:
    """Drops the bits that the narrower format does not have, so that the conversion is exact."""
    if x.type.element != "f32" or element not in ("bf16", "f16"):
        raise op.fail(f"rounding toward zero from {x.type.element} to {element}")
    bits = low.alias(x, Type("i32", x.type.shape))
    mask = low.constant(-(1 << (16 if element == "bf16" else 13)), Type("i32"))
    cut = low.alias(low.binary("and", bits, mask), x.type)
    if element == "f16":  # what is too large becomes the largest number
        most = low.constant(65504.0, Type("f32"))
        size = low.formula("abs", x)
        finite = low.binary("lt", size, low.constant(float("inf"), Type("f32")), "i1")
        limited = low.binary("max", low.binary("min", cut, most), low.constant(-65504.0, Type("f32")))
        cut = low.select(finite, limited, x)
    return low.convert(cut, element)


@rule("arith.sitofp")
def _from_signed(low: Lowering, op: Op) -> list[Tile]:
    x, element = low.of(op.operands[0]), op.results[0].type.element
    if x.type.element == "i1":
        return [low.formula("neg", low.convert(x, element))]
    return [low.convert(x, element)]


@rule("arith.uitofp")
def _from_unsigned(low: Lowering, op: Op) -> list[Tile]:
    x, element = low.of(op.operands[0]), op.results[0].type.element
    if x.type.element != "i64":
        return [low.convert(low.unsigned(x, "i64"), element)]
    # Of a number of 64 bits, half of it (the last bit still decides on the rounding), doubled.
    one, zero, two = low.constant(1, Type("i64")), low.constant(0, Type("i64")), low.constant(2.0, Type("f64"))
    half = low.binary("or", low.binary("shr_unsigned", x, one), low.binary("and", x, one))
    large = low.convert(low.binary("mul", low.convert(half, "f64"), two), element)
    return [low.select(low.binary("lt", x, zero, "i1"), large, low.convert(x, element))]


@rule("arith.fptosi")
def _to_signed(low: Lowering, op: Op) -> list[Tile]:
    x, element = low.widened(low.of(op.operands[0])), op.results[0].type.element
    if element == "i1":
        return [low.binary("ne", x, low.constant(0.0, Type(x.type.element)), "i1")]
    return [low.convert(low.convert(x, "i64"), element)]


@rule("arith.fptoui")
def _to_unsigned(low: Lowering, op: Op) -> list[Tile]:
    x, element = low.widened(low.of(op.operands[0])), op.results[0].type.element
    if element == "i1":
        return [low.binary("ne", x, low.constant(0.0, Type(x.type.element)), "i1")]
    whole = low.convert(x, "i64")
    if element == "i64":
        limit = low.constant(2.0**63, Type(x.type.element))
        above = low.convert(low.binary("sub", x, limit), "i64")
        flipped = low.binary("xor", above, low.constant(-(1 << 63), Type("i64")))
        whole = low.select(low.binary("ge", x, limit, "i1"), flipped, whole)
    return [low.convert(whole, element)]


@rule("arith.bitcast", "tt.bitcast")
def _bits(low: Lowering, op: Op) -> list[Tile]:
    return [low.alias(low.of(op.operands[0]), op.results[0].type)]


@rule("tt.int_to_ptr", "tt.ptr_to_int")
def _pointer(low: Lowering, op: Op) -> list[Tile]:
    x = low.of(op.operands[0])
    low.reads_addresses |= op.name == "tt.int_to_ptr"
    wide = low.unsigned(x, "i64") if x.type.element not in ("ptr", "i64") else x
    return [low.alias(wide, op.results[0].type)]
