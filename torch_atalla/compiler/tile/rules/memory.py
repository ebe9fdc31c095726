# SPDX-License-Identifier: BSD-3-Clause
"""Addresses, loads, stores and atomic updates."""

from __future__ import annotations

import dataclasses

from ..ir import WIDTHS, Op, Type, Value
from ..lower import Lowering, Parts, Places, Tile, rule
from ..steps import code

ATOMIC = {"add": "add", "fadd": "add", "and": "and", "or": "or", "xor": "xor", "max": "max", "min": "min",
          "umax": "max_unsigned", "umin": "min_unsigned", "exch": "exchange"}  # fmt: skip


@rule("tt.addptr")
def _add(low: Lowering, op: Op) -> list[Tile | Places]:
    base, offset = low.places_of(op.operands[0]), low.of(op.operands[1])
    kind = op.results[0].type
    scale = WIDTHS.get(op.operands[0].type.pointee or "i8", 64) // 8
    if isinstance(base, Tile):
        if not base.one or offset.one:
            return [_moved(low, base, offset, scale, kind, low.preferred.get(op.results[0]))]
        offsets = low.settled(offset) if offset.type.element in ("i32", "i64") else low.convert(offset, "i32")
        return [Places(Tile(low.settled(base).id, Type("i64"), True), offsets, scale, kind)]
    if offset.one:
        return [dataclasses.replace(base, base=_moved(low, base.base, offset, scale, Type("i64")), type=kind)]
    if base.scale != scale:
        return [_moved(low, low.of(op.operands[0]), offset, scale, kind)]
    wide = low.binary("add", low.convert(base.offsets, "i64"), low.convert(offset, "i64"))
    return [dataclasses.replace(base, offsets=wide, type=kind)]


def _moved(low: Lowering, base: Tile, offset: Tile, scale: int, kind: Type, into: Tile | None = None) -> Tile:
    """base + offset * scale, in 64 bits."""
    wide = low.convert(offset, "i64")
    if scale > 1:
        wide = low.binary("mul", wide, low.constant(scale, Type("i64")))
    base = Tile(base.id, base.type.with_element("i64"), base.one)
    shape = wide.type.shape if base.type.shape is None else base.type.shape
    moved = low.binary("add", base, wide, into=into)
    return Tile(moved.id, Type("ptr", kind.shape if kind.shape is not None else shape, kind.pointee), moved.one)


def _places(low: Lowering, value: Value, one: bool = False) -> list[int]:
    """The three words of an access."""
    places = low.places_of(value)
    if isinstance(places, Places):
        return [places.base.id, places.offsets.id, places.scale]
    tile = places if one else low.full(places)
    return [tile.id, -1, 0]


def _rows(low: Lowering, value: Value, mask: Tile | None) -> tuple[list[int], int, list[int]] | None:
    """The words of an access to a tile of rows: places, the columns' mask, and those that follow the line; or None."""
    places = low.places_of(value)
    if not isinstance(places, Places) or len(places.type.dims) != 2:
        return None
    parts = low.parts_of(places.offsets)
    flags = Parts(None, mask) if mask is None or mask.one else low.parts_of(mask)
    if parts is None or flags is None or places.offsets.type.element not in ("i32", "i64"):
        return None
    rows, columns, row_mask, column_mask = (
        -1 if tile is None else tile.id for tile in (parts.rows, parts.columns, flags.rows, flags.columns)
    )
    return [places.base.id, columns, places.scale], column_mask, [rows, row_mask, *places.type.dims]


def _mask(low: Lowering, value: Value | None) -> Tile | None:
    return None if value is None else low.of(value)


@rule("tt.load")
def _load(low: Lowering, op: Op) -> list[Tile]:
    kind = op.results[0].type
    low.reads_addresses |= kind.element == "ptr"
    places = low.places_of(op.operands[0])
    mask = _mask(low, op.operands[1] if len(op.operands) > 1 else None)
    other = _mask(low, op.operands[2] if len(op.operands) > 2 else None)
    # One address for all elements is one element, if the mask and what stands for masked elements are one too.
    one = isinstance(places, Tile) and places.one and all(t is None or t.one for t in (mask, other))
    words = _places(low, op.operands[0], one)
    out = low.new(kind, one)
    if (found := _rows(low, op.operands[0], mask)) is not None:
        words, column_mask, rows = found
        values = [column_mask, -1 if other is None else other.id]
        low.emit("load", [out.id, *words, *values, low.line(op), *rows], [out.id, *words[:2], *values, *rows[:2]])
        return [out]
    masks = [-1 if t is None else t.id for t in (mask, other)]
    low.emit("load", [out.id, *words, *masks, low.line(op)], [out.id, *words[:2], *masks])
    return [out]


@rule("tt.store")
def _store(low: Lowering, op: Op) -> list[Tile]:
    places, value = low.places_of(op.operands[0]), low.of(op.operands[1])
    mask = _mask(low, op.operands[2] if len(op.operands) > 2 else None)
    # All elements may write the same to one address.
    one = isinstance(places, Tile) and places.one and value.one and (mask is None or mask.one)
    words = _places(low, op.operands[0], one)
    if (found := _rows(low, op.operands[0], mask)) is not None:
        words, column_mask, rows = found
        values = [value.id, column_mask]
        low.emit("store", [*words, *values, low.line(op), *rows], [*words[:2], *values, *rows[:2]])
        return []
    others = [value.id, -1 if mask is None else mask.id]
    low.emit("store", [*words, *others, low.line(op)], [*words[:2], *others])
    return []


@rule("tt.atomic_rmw")
def _update(low: Lowering, op: Op) -> list[Tile]:
    low.sequential = True
    addresses, value = low.full(low.of(op.operands[0])), low.of(op.operands[1])
    mask = _mask(low, op.operands[2] if len(op.operands) > 2 else None)
    out = low.new(op.results[0].type)
    ids = [out.id, addresses.id, value.id, -1 if mask is None else mask.id]
    kind = ATOMIC.get(op.attributes["words"][0])
    if kind is None:
        raise op.fail(f"the update `{op.attributes['words'][0]}`")
    low.emit("atomic", [*ids, code("AtomicUpdate", kind), low.line(op)], ids)
    return [out]


@rule("tt.atomic_cas")
def _swap(low: Lowering, op: Op) -> list[Tile]:
    low.sequential = True
    addresses, expected, value = (low.full(low.of(v)) for v in op.operands)
    out = low.new(op.results[0].type)
    ids = [out.id, addresses.id, expected.id, value.id]
    low.emit("compare_and_swap", [*ids, low.line(op)], ids)
    return [out]


@rule("gpu.barrier", "ttg.barrier", "ttg.local_barrier", "llvm.intr.assume")
def _nothing(low: Lowering, op: Op) -> list[Tile]:
    return []
