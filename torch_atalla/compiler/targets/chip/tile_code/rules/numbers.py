# SPDX-License-Identifier: BSD-3-Clause
"""Constants, arithmetic, and ops that give tiles another shape."""

from __future__ import annotations

import struct
from typing import Any

from .....tile.ir import Op
from .....tile.rules.numbers import bits_of_constant
from .. import scalars
from ..generator import Generator, number, rule, uniform
from ..values import Affine, Element, Lazy, Mask, Table, Term, Uniform, Wide, Wrap


@rule("arith.constant")
def _constant(g: Generator, op: Op) -> list[Any]:
    kind, bits = op.results[0].type, bits_of_constant(op)
    value: int | float = bits
    if kind.element in ("f32", "bf16"):
        value = struct.unpack("<f", struct.pack("<I", (bits if kind.element == "f32" else bits << 16) & 0xFFFFFFFF))[0]
    elif kind.element.startswith("f"):
        raise op.fail(f"a number of {kind.element}; expected bf16 or f32")
    return [value if kind.shape is None else uniform(op, kind.shape, value)]


rule("tt.get_program_id")(lambda g, op: [g.program_ids["xyz".index(op.attributes["words"][0])]])
rule("tt.get_num_programs")(lambda g, op: [g.core.parameter(f"grid_{op.attributes['words'][0]}")])
rule("tt.make_range")(lambda g, op: [Affine(op.results[0].type.dims, op.attributes["start"], {0: Term(1)})])
rule("tt.splat")(lambda g, op: [uniform(op, op.results[0].type.dims, g.of(op.operands[0]))])


@rule("tt.expand_dims")
def _expand(g: Generator, op: Op) -> list[Any]:
    axis = op.attributes["axis"]
    return [_reshaped(op, g.of(op.operands[0]), "expand", {d: d + (d >= axis) for d in range(8)})]


rule("tt.broadcast")(lambda g, op: [_reshaped(op, g.of(op.operands[0]), "broadcast", {d: d for d in range(8)})])


@rule("tt.trans")
def _transpose(g: Generator, op: Op) -> list[Any]:
    order = op.attributes["order"]
    return [_reshaped(op, g.of(op.operands[0]), "transpose", {d: order.index(d) for d in order})]


def _reshaped(op: Op, x: Any, name: str, dims: dict[int, int]) -> Any:
    """dims: where each dimension goes."""
    shape = op.results[0].type.dims
    if isinstance(x, Affine):
        return Affine(shape, x.base, {dims[d]: term for d, term in x.terms.items()})
    if isinstance(x, Mask):
        return Mask(shape, tuple(_reshaped(op, p, name, dims) for p in x.predicates))
    if isinstance(x, Uniform):
        return Uniform(shape, x.value)
    return Element(shape, op, (x,)) if isinstance(x, Element | Table) else Lazy(shape, op, (x,), name)


# ----------------------------------------------------------------------------------------------------------- integers
@rule("arith.addi", "arith.subi", "arith.muli", "arith.remsi", "arith.cmpi", "arith.andi", "arith.ori", "arith.xori")
def _integers(g: Generator, op: Op) -> list[Any]:
    a, b = (g.of(v) for v in op.operands)
    name, core = op.name, g.core
    if isinstance(a, Affine) and isinstance(b, Affine) and (a.terms or b.terms):
        found: Affine | Mask | None = None
        if name in ("arith.addi", "arith.subi"):
            found = added(g, a, b, 1 if name == "arith.addi" else -1)
        elif name == "arith.muli" and not (a.terms and b.terms):
            tile, factor = (a, b.base) if a.terms else (b, a.base)
            terms = {d: Term(scalars.multiply(core, t.step, factor), t.wrap) for d, t in tile.terms.items()}
            found = Affine(a.shape, scalars.multiply(core, tile.base, factor), terms)
        elif name == "arith.remsi" and not b.terms and len(a.terms) == 1:
            (dim, term), *_ = a.terms.items()
            if term == Term(1) and op.results[0].type.element == "i32":
                found = Affine(a.shape, 0, {dim: Term(1, Wrap(a.base, b.base))})
        elif name == "arith.cmpi":
            found = _compared(g, op, a, b)
        if found is not None:
            return [found]
    if name == "arith.andi" and isinstance(a, Mask) and isinstance(b, Mask):
        return [Mask(a.shape, a.predicates + b.predicates)]
    return [g.compute(op)]


def added(g: Generator, a: Affine, b: Affine, sign: int) -> Affine | None:
    """a + sign * b; None if places that go around differ."""
    core = g.core
    terms = dict(a.terms)
    for d, term in b.terms.items():
        step = term.step if sign > 0 else scalars.subtract(core, 0, term.step)
        if d in terms:
            if terms[d].wrap is not term.wrap:
                return None
            step = scalars.add(core, terms[d].step, step)
        terms[d] = Term(step, term.wrap)
    terms = {d: t for d, t in terms.items() if not (isinstance(t.step, int) and t.step == 0)}
    return Affine(a.shape, (scalars.add if sign > 0 else scalars.subtract)(core, a.base, b.base), terms)


def _compared(g: Generator, op: Op, a: Affine, b: Affine) -> Mask | None:
    """As a sum below 0."""
    predicate = op.attributes["words"][0]
    if predicate not in ("slt", "sle", "sgt", "sge"):
        return None
    low, high = (a, b) if predicate in ("slt", "sle") else (b, a)
    difference = added(g, low, high, -1)
    if difference is None or any(t.wrap is not None for t in difference.terms.values()):
        return None
    if predicate in ("sle", "sge"):
        difference = Affine(difference.shape, scalars.subtract(g.core, difference.base, 1), difference.terms)
    return Mask(a.shape, (difference,))


@rule("tt.addptr")
def _address(g: Generator, op: Op) -> list[Any]:
    from .....tile.ir import WIDTHS

    base, offset = (g.of(v) for v in op.operands)
    scale = WIDTHS.get(op.operands[0].type.pointee or "i8", 64) // 8
    if isinstance(offset, Wide):
        offset = offset.low
    if not isinstance(base, Affine) and not isinstance(base, Element) and op.results[0].type.shape is None:
        return [scalars.add(g.core, base, scalars.multiply(g.core, offset, scale))]
    if isinstance(base, Affine) and isinstance(offset, Affine):
        scaled = Affine(offset.shape, scalars.multiply(g.core, offset.base, scale), offset.terms)
        found = added(g, base, scaled, 1)
        if found is not None:
            return [found]
    return [Element(op.results[0].type.dims, op, (base, offset))]


@rule("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast")
def _widths(g: Generator, op: Op) -> list[Any]:
    """Places in 32 bits, which DRAM's addresses have."""
    x = g.of(op.operands[0])
    if isinstance(x, Affine) and {op.operands[0].type.element, op.results[0].type.element} <= {"i32", "i64"}:
        return [x]
    return [g.compute(op)]


# ------------------------------------------------------------------------------------------------------------ numbers
@rule("arith.extf", "arith.truncf")
def _precision(g: Generator, op: Op) -> list[Any]:
    """The vector unit rounds results to BF16, and keeps tiles that products and sums have made in FP32."""
    for v in (*op.operands, *op.results):
        if v.type.element not in ("bf16", "f32"):
            raise op.fail(f"numbers of {v.type.element}; expected bf16 or f32")
    x = g.of(op.operands[0])
    if op.results[0].type.shape is not None and number(x) is None and not isinstance(x, Element):
        return [Lazy(x.shape, op, (x,), "same")]
    return [g.compute(op)]


@rule("arith.select")
def _select(g: Generator, op: Op) -> list[Any]:
    condition, yes, no = (g.of(v) for v in op.operands)
    shape = op.results[0].type.shape
    if shape is not None and number(condition) is not None and not isinstance(condition, Affine):
        condition = Uniform(shape, number(condition))
    parts = (condition, yes, no)
    if shape is not None and any(isinstance(x, Lazy) for x in parts):
        return [Lazy(shape, op, parts, op.name)]
    return [g.compute(op)]


_PLAIN = [name for name in scalars.OPERATIONS if not name.startswith("tt.bitcast")]


@rule(*(name for name in _PLAIN if name not in (
    "arith.addi", "arith.subi", "arith.muli", "arith.remsi", "arith.cmpi", "arith.andi", "arith.ori", "arith.xori",
    "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.extf", "arith.truncf", "arith.select",
)), "math.tanh", "tt.bitcast")  # fmt: skip
def _operation(g: Generator, op: Op) -> list[Any]:
    found = g.compute(op)
    if isinstance(found, Lazy):
        from ..vectors import VECTOR

        if op.name not in VECTOR:
            raise op.fail("the vector unit has no such operation")
    return [found]


rule("llvm.intr.assume", "ttg.barrier", "gpu.barrier", "ttg.local_barrier")(lambda g, op: [])
