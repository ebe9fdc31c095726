# SPDX-License-Identifier: BSD-3-Clause
"""Loads and stores: of tiles by SDMA, where addresses and masks allow it, of single numbers by the scalar core."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .....tile.ir import Op
from ...kernels.tiling import ROW_BYTES
from ...scalar_core.values import Value
from ...vir import V0
from .. import scalars
from ..generator import Generator, number, rule
from ..prefetch import Ahead
from ..transfers import Window, transfer
from ..values import Affine, Buffer, Lazy, Mask, Scalar, Shape, Uniform, Wrap
from ..wrapped import load_wrapped
from . import elements
from .elements import load_number, store_number


def _load_one(g: Generator, op: Op) -> Any:
    element = op.results[0].type.element
    address, *more = (g.of(v) for v in op.operands)
    if not more:
        return load_number(g, op, element, address)
    if element == "i64":
        raise op.fail("a masked load of an integer of 64 bits")
    other = more[1] if len(more) > 1 else 0
    out = g.variable(other, "f" if element in ("bf16", "f32") else "i")
    with g.core.when(g.core.nonzero(g.core.value(more[0]))):
        out.set(load_number(g, op, element, address))
    return out


@rule("tt.atomic_cas")
def _swap(g: Generator, op: Op) -> list[Any]:
    """Program instances run one after the other, so that updates are loads and stores."""
    address, expected, value = (g.of(v) for v in op.operands)
    element = op.results[0].type.element
    if op.results[0].type.shape is not None or element != "i32":
        raise op.fail(f"an atomic update of {op.results[0].type}; expected one i32")
    found = load_number(g, op, element, address)
    with g.core.when(found.equals(expected)):
        store_number(g, op, element, address, value)
    return [found]


_UPDATES = {"add": "arith.addi", "and": "arith.andi", "or": "arith.ori", "xor": "arith.xori", "max": "arith.maxsi",
            "min": "arith.minsi", "fadd": "arith.addf"}  # fmt: skip


@rule("tt.atomic_rmw")
def _update(g: Generator, op: Op) -> list[Any]:
    address, value, *mask = (g.of(v) for v in op.operands)
    kind, element = op.attributes["words"][0], op.results[0].type.element
    if op.results[0].type.shape is not None or element not in ("i32", "f32"):
        raise op.fail(f"an atomic update of {op.results[0].type}; expected one i32 or f32")
    if kind not in ("exch", *_UPDATES):
        raise op.fail(f"the update `{kind}`")
    found = load_number(g, op, element, address)
    given = value if kind == "exch" else scalars.OPERATIONS[_UPDATES[kind]](g.core, op, found, value)
    condition = g.core.value(mask[0]) if mask else g.core.value(1)
    with g.core.when(g.core.nonzero(condition)):
        store_number(g, op, element, address, given)
    return [found]


# --------------------------------------------------------------------------------------------------------------- tiles
@dataclass(frozen=True)
class Region:
    """Of an access: the shape of what differs in DRAM, its lanes, its window, and the places that go around."""

    shape: Shape
    lane: int | None
    window: Window
    wraps: dict[int, Wrap]
    rest: tuple[Affine, ...] = ()  # predicates of the mask that the window does not have


def region_of(g: Generator, op: Op, places: Any, mask: Any) -> Region | None:
    """None if addresses or masks are irregular: the scalar core moves such tiles element by element."""
    if not isinstance(places, Affine):
        return None
    terms = places.terms
    shape = tuple(n if d in terms else 1 for d, n in enumerate(places.shape))
    dims = [d for d, n in enumerate(shape) if n > 1]
    if len(dims) > 2:
        return None
    units = [d for d in dims if isinstance(terms[d].step, int) and terms[d].step == 1]
    lane = units[-1] if units else None
    others = [d for d in dims if d != lane]
    if len(others) > 1:
        return None
    row = others[0] if others else None
    if row is not None and isinstance(terms[row].step, int):
        if not (1 if lane is None else 2) <= terms[row].step <= 1 << 20:
            return None
    counts: dict[int | None, Scalar] = {d: shape[d] for d in dims}
    condition: Any = 1
    rest = []
    core = g.core
    predicates = mask.predicates if isinstance(mask, Mask) else ()
    if isinstance(mask, Uniform):
        condition = core.nonzero(core.value(mask.value, "b"))
    elif mask is not None and not isinstance(mask, Mask):
        return None
    for p in predicates:
        if not p.terms:
            below = scalars.less(core, p.base, 0)
            condition = below if condition == 1 else core.value(condition) & core.value(below)
        elif len(p.terms) == 1 and next(iter(p.terms)) in dims:
            (dim, term), *_ = p.terms.items()
            if not (isinstance(term.step, int) and term.step == 1) or dim in terms and terms[dim].wrap is not None:
                return None
            inside = clamped(g, scalars.subtract(core, 0, p.base), shape[dim])
            counts[dim] = inside if counts[dim] == shape[dim] else scalars.least(core, counts[dim], inside)
        elif len(p.terms) == 1:
            rest.append(p)
        else:
            return None
    first = dims[0] if dims else None
    if condition != 1:
        key = row if row is not None else first
        counts[key] = scalars.select(core, condition, counts.get(key, 1), 0)
    height = counts[row] if row is not None else 1
    width = counts[lane] if lane is not None else 1
    if not dims and None in counts:
        height = counts[None]
    step = terms[row].step if row is not None else 0
    wraps = {d: terms[d].wrap for d in dims if terms[d].wrap is not None}
    return Region(shape, lane, Window(places.base, step, height, width), wraps, tuple(rest))  # type: ignore[arg-type]


def clamped(g: Generator, x: Any, high: int) -> Any:
    return scalars.clamp(g.core, x, high)


@rule("tt.load")
def _load(g: Generator, op: Op) -> list[Any]:
    kind = op.results[0].type
    if kind.shape is None:
        return [_load_one(g, op)]
    places, *more = (g.of(v) for v in op.operands)
    mask, other = more[0] if more else None, more[1] if len(more) > 1 else None
    if kind.element != "bf16":
        return [elements.load(g, op, places, mask, other)]
    region = region_of(g, op, places, mask)
    if region is None:
        return [elements.load(g, op, places, mask, other)]
    filled = number(other) if other is not None else 0.0
    ahead = g.ahead.get(op)
    if ahead is None:
        buffer = g.new_buffer(region.shape, region.lane, 0, spread=False)
        _bring(g, buffer, region, filled)
    else:
        buffer = _bring_ahead(g, op, region, filled, ahead)
    found: Any = buffer
    if region.shape != kind.dims:
        found = Lazy(kind.dims, op, (found,), "broadcast")
    if region.rest:
        rest = Mask(kind.dims, region.rest)
        found = Lazy(kind.dims, op, (rest, found, Uniform(kind.dims, filled)), "arith.select")
    if other is not None and filled is None:
        found = Lazy(kind.dims, op, (mask, found, other), "arith.select")
    return [found]


def _bring(g: Generator, buffer: Buffer, region: Region, filled: Any) -> None:
    def fill() -> None:
        is_zero = filled is None or (not isinstance(filled, Value) and filled == 0)
        g.fill(buffer, V0 if is_zero else g.b.vec("add.vs", V0, g.scalar(filled)))

    if region.wraps:
        load_wrapped(g, buffer, region.window, region.wraps, fill)
    else:
        transfer(g, buffer, region.window, True, fill)


def _bring_ahead(g: Generator, op: Op, region: Region, filled: Any, ahead: Ahead) -> Buffer:
    """Of the next pass too."""
    core = g.core
    half = g.new_buffer(region.shape, region.lane, 0, 2, spread=False)
    span = half.vectors * ROW_BYTES
    ahead.shift.set(core.constant(span, "i") - ahead.shift)
    buffer = replace(half, shift=ahead.shift)
    with core.when(~ahead.ready.as_kind("b")):
        _bring(g, buffer, region, filled)
    ahead.ready.set(core.value(ahead.follows()))
    with core.when(ahead.ready):
        places, *mask = ahead.next_operands(g, op)
        following = region_of(g, op, places, mask[0] if mask else None)
        assert following is not None and (following.shape, following.lane) == (region.shape, region.lane)
        _bring(g, replace(half, shift=core.constant(span, "i") - ahead.shift), following, filled)
    return buffer


@rule("tt.store")
def _store(g: Generator, op: Op) -> list[Any]:
    kind = op.operands[1].type
    places, x, *mask = (g.of(v) for v in op.operands)
    if kind.shape is None:
        if not mask:
            store_number(g, op, kind.element, places, x)
        else:
            with g.core.when(g.core.nonzero(g.core.value(mask[0]))):
                store_number(g, op, kind.element, places, x)
        return []
    given = mask[0] if mask else None
    region = region_of(g, op, places, given) if kind.element == "bf16" and not isinstance(x, Affine) else None
    if region is None or region.wraps or region.rest or region.shape != kind.dims:
        elements.store(g, op, places, x, given)
        return []
    buffer = g.rounded_tile(x, region.lane)
    transfer(g, buffer, region.window, False)
    return []
