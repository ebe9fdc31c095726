# SPDX-License-Identifier: BSD-3-Clause
"""Addresses, loads, stores and atomic updates."""

from __future__ import annotations

import dataclasses

from ..ir import WIDTHS, Op, Type, Value
from ..lower import Lowering, Parts, Places, Tile, rule
from ..step_types import Atomic, CompareAndSwap, Load, LoadRows, Store, StoreRows

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


@dataclasses.dataclass(frozen=True)
class _Access:
    """Words of a load or store. `rows`: of a tile of rows, the offsets and the mask of its rows, and its sizes."""

    base: int
    offsets: int
    scale: int
    mask: int
    rows: tuple[int, int, int, int] | None = None


def _access(low: Lowering, value: Value, mask: Tile | None, single: bool) -> _Access:
    """The access at the addresses `value`; `single`: one address stands for all elements."""
    found = _rows(low, value, mask)
    if found is not None:
        return found
    places = low.places_of(value)
    if isinstance(places, Places):
        return _Access(places.base.id, places.offsets.id, places.scale, _id(mask))
    tile = places if single else low.full(places)
    return _Access(tile.id, -1, 0, _id(mask))


def _rows(low: Lowering, value: Value, mask: Tile | None) -> _Access | None:
    places = low.places_of(value)
    if not isinstance(places, Places) or len(places.type.dims) != 2:
        return None
    parts = low.parts_of(places.offsets)
    flags = Parts(None, mask) if mask is None or mask.one else low.parts_of(mask)
    if parts is None or flags is None or places.offsets.type.element not in ("i32", "i64"):
        return None
    rows = _id(parts.rows), _id(flags.rows), *places.type.dims
    return _Access(places.base.id, _id(parts.columns), places.scale, _id(flags.columns), rows)


def _id(tile: Tile | None) -> int:
    return -1 if tile is None else tile.id


@rule("tt.load")
def _load(low: Lowering, op: Op) -> list[Tile]:
    kind = op.results[0].type
    low.reads_addresses |= kind.element == "ptr"
    places = low.places_of(op.operands[0])
    mask, other = (*map(low.of, op.operands[1:]), None, None)[:2]
    # One address for all elements is one element, if the mask and what stands for masked elements are one too.
    one = isinstance(places, Tile) and places.one and all(t is None or t.one for t in (mask, other))
    at = _access(low, op.operands[0], mask, one)
    out = low.new(kind, one)
    rows = None if at.rows is None else LoadRows(*at.rows)
    low.emit(Load(out.id, at.base, at.offsets, at.scale, at.mask, _id(other), low.line(op), rows))
    return [out]


@rule("tt.store")
def _store(low: Lowering, op: Op) -> list[Tile]:
    places = low.places_of(op.operands[0])
    value, *masks = map(low.of, op.operands[1:])
    mask = masks[0] if masks else None
    # All elements may write the same to one address.
    one = isinstance(places, Tile) and places.one and value.one and (mask is None or mask.one)
    at = _access(low, op.operands[0], mask, one)
    rows = None if at.rows is None else StoreRows(*at.rows)
    low.emit(Store(at.base, at.offsets, at.scale, value.id, at.mask, low.line(op), rows))
    return []


@rule("tt.atomic_rmw")
def _update(low: Lowering, op: Op) -> list[Tile]:
    low.sequential = True
    addresses, value, *masks = map(low.of, op.operands)
    addresses = low.full(addresses)
    out = low.new(op.results[0].type)
    kind = ATOMIC.get(op.attributes["words"][0])
    if kind is None:
        raise op.fail(f"the update `{op.attributes['words'][0]}`")
    low.emit(Atomic(out.id, addresses.id, value.id, _id(masks[0] if masks else None), kind, low.line(op)))
    return [out]


@rule("tt.atomic_cas")
def _swap(low: Lowering, op: Op) -> list[Tile]:
    low.sequential = True
    addresses, expected, value = (low.full(low.of(v)) for v in op.operands)
    out = low.new(op.results[0].type)
    low.emit(CompareAndSwap(out.id, addresses.id, expected.id, value.id, low.line(op)))
    return [out]


rule("gpu.barrier", "ttg.barrier", "ttg.local_barrier", "llvm.intr.assume")(lambda low, op: [])
