# SPDX-License-Identifier: BSD-3-Clause
"""Constants, comparisons, selections, and operations that are made of several."""

from __future__ import annotations

import re

from .. import arithmetic
from ..ir import WIDTHS, Op
from ..lower import HALF, Lowering, Tile, bits_of, rule
from ..step_types import Exp, FusedMultiplyAdd
from ..steps import FLOAT8
from .expressions import Expr, computes


def constant_bits(text: str, element: str) -> int:
    """Of a printed number: decimal, or the bits in hexadecimal of a float that decimals cannot give."""
    if text in ("true", "false"):
        return int(text == "true")
    if text.startswith("0x"):
        bits, width = int(text, 16), WIDTHS[element]
        return bits - (1 << width) if bits >> (width - 1) and width <= 64 else bits
    if element in HALF or element in FLOAT8:
        return _half_bits(float(text), element)
    return bits_of(float(text) if element.startswith("f") else int(text), element)


def _half_bits(number: float, element: str) -> int:
    import torch

    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2,
             "f8E4M3FNUZ": torch.float8_e4m3fnuz, "f8E5M2FNUZ": torch.float8_e5m2fnuz}[element]  # fmt: skip
    stored = torch.int16 if element in HALF else torch.int8
    return int(torch.tensor(number, dtype=dtype).view(stored).item())


def bits_of_constant(op: Op) -> int:
    """Of the one number that an arith.constant has everywhere."""
    text = str(op.attributes["value"])
    if match := re.match(r"dense<(.*)>$", text):
        text = match[1]
    if text.startswith(("[", '"')):
        raise op.fail("a constant with several values")
    text = re.sub(r"\{.*?\}", "", text).split(" : ")[0].strip()
    return constant_bits(text, op.results[0].type.element)


rule("arith.constant")(lambda low, op: [low.filled(bits_of_constant(op), op.results[0].type)])
rule("ub.poison")(lambda low, op: [low.filled(0, op.results[0].type)])
computes("arith.cmpi")(lambda op, a, b: a.flag(arithmetic.INTEGER_PREDICATES[op.attributes["words"][0]], b))


@computes("arith.cmpf")
def _compare_floats(op: Op, a: Expr, b: Expr) -> Expr:
    predicate = op.attributes["words"][0]
    if predicate in ("false", "true"):
        return Expr(a.low, a.low.constant(predicate == "true", op.results[0].type))
    kind, inverted = arithmetic.FLOAT_PREDICATES[predicate]
    found = a.widened().flag(kind, b.widened())
    return ~found if inverted else found


@rule("arith.select")
def _select(low: Lowering, op: Op) -> list[Tile]:
    condition, a, b = map(low.of, op.operands)
    return [low.select(condition, a, b, low.preferred.get(op.results[0]))]


@rule("math.exp")
def _exp(low: Lowering, op: Op) -> list[Tile]:
    source = low.of(op.operands[0])
    x = low.widened(source)
    if x.type.element != "f32":
        return [low.formula("exp", x)]
    out = low.new(x.type, x.one)
    low.emit(Exp(out.id, x.id))
    return [low.convert(out, source.type.element)]


@rule("math.fma")
def _fused_multiply_add(low: Lowering, op: Op) -> list[Tile]:
    element = op.results[0].type.element
    a, b, c = (low.widened(low.of(v)) for v in op.operands)
    out = low.result(max((a, b, c), key=lambda t: t.type.count).type, [a, b, c])
    low.emit(FusedMultiplyAdd(out.id, a.id, b.id, c.id))
    return [low.convert(out, element)]


computes("math.absi")(lambda op, x: x.op("max", -x))


@computes("arith.ceildivsi", "arith.floordivsi")
def _rounded_division(op: Op, a: Expr, b: Expr) -> Expr:
    quotient, rest = a / b, a.op("rem", b)
    up = op.name == "arith.ceildivsi"
    uneven = rest.flag("ne", 0) & (rest ^ b).flag("ge" if up else "lt", 0)
    return uneven.where(quotient + 1 if up else quotient - 1, quotient)


@computes("arith.ceildivui")
def _unsigned_division_up(op: Op, a: Expr, b: Expr) -> Expr:
    quotient = a.op("div_unsigned", b)
    return a.op("rem_unsigned", b).flag("ne", 0).where(quotient + 1, quotient)


@computes("tt.clampf")
def _clamp(op: Op, x: Expr, least: Expr, most: Expr) -> Expr:
    suffix = "" if "all" in op.attributes.get("words", ()) else "_number"
    inside = x.widened().op(f"max{suffix}", least.widened()).op(f"min{suffix}", most.widened())
    return inside.to(op.results[0].type.element)
