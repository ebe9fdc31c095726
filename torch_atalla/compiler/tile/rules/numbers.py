# SPDX-License-Identifier: BSD-3-Clause
"""Constants, comparisons, selections, and operations that are made of several."""

from __future__ import annotations

import re

from .. import arithmetic
from ..ir import WIDTHS, Op, Type
from ..lower import HALF, Lowering, Tile, bits_of, rule
from ..step_types import Exp, FusedMultiplyAdd
from ..steps import FLOAT8


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


@rule("arith.constant")
def _constant(low: Lowering, op: Op) -> list[Tile]:
    return [low.filled(bits_of_constant(op), op.results[0].type)]


@rule("ub.poison")
def _poison(low: Lowering, op: Op) -> list[Tile]:
    return [low.filled(0, op.results[0].type)]


@rule("arith.cmpi")
def _compare_integers(low: Lowering, op: Op) -> list[Tile]:
    a, b = map(low.of, op.operands)
    return [low.binary(arithmetic.INTEGER_PREDICATES[op.attributes["words"][0]], a, b, "i1")]


@rule("arith.cmpf")
def _compare_floats(low: Lowering, op: Op) -> list[Tile]:
    a, b = (low.widened(low.of(v)) for v in op.operands)
    predicate = op.attributes["words"][0]
    if predicate in ("false", "true"):
        return [low.constant(predicate == "true", op.results[0].type)]
    kind, inverted = arithmetic.FLOAT_PREDICATES[predicate]
    found = low.binary(kind, a, b, "i1")
    return [low.inverted(found) if inverted else found]


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


@rule("math.absi")
def _absolute(low: Lowering, op: Op) -> list[Tile]:
    a = low.of(op.operands[0])
    return [low.binary("max", a, low.binary("sub", low.constant(0, Type(a.type.element)), a))]


@rule("arith.ceildivsi", "arith.floordivsi")
def _rounded_division(low: Lowering, op: Op) -> list[Tile]:
    a, b = map(low.of, op.operands)
    zero, one = (low.constant(n, Type(a.type.element)) for n in (0, 1))
    quotient, rest = low.binary("div", a, b), low.binary("rem", a, b)
    signs = low.binary("xor", rest, b)
    up = op.name == "arith.ceildivsi"
    same = low.binary("ge" if up else "lt", signs, zero, "i1")
    uneven = low.binary("and", low.binary("ne", rest, zero, "i1"), same)
    moved = low.binary("add" if up else "sub", quotient, one)
    return [low.select(uneven, moved, quotient)]


@rule("arith.ceildivui")
def _unsigned_division_up(low: Lowering, op: Op) -> list[Tile]:
    a, b = map(low.of, op.operands)
    zero, one = (low.constant(n, Type(a.type.element)) for n in (0, 1))
    quotient = low.binary("div_unsigned", a, b)
    uneven = low.binary("ne", low.binary("rem_unsigned", a, b), zero, "i1")
    return [low.select(uneven, low.binary("add", quotient, one), quotient)]


@rule("tt.clampf")
def _clamp(low: Lowering, op: Op) -> list[Tile]:
    element = op.results[0].type.element
    x, least, most = (low.widened(low.of(v)) for v in op.operands)
    suffix = "" if "all" in op.attributes.get("words", ()) else "_number"
    return [low.convert(low.binary(f"min{suffix}", low.binary(f"max{suffix}", x, least), most), element)]
