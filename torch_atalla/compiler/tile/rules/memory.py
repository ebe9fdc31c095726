# SPDX-License-Identifier: BSD-3-Clause
"""Addresses, loads, stores and atomic updates."""

from __future__ import annotations

from ..ir import WIDTHS, Op, Type, Value
from ..lower import Lowering, Tile, rule
from ..steps import code

ATOMIC = {"add": "add", "fadd": "add", "and": "and", "or": "or", "xor": "xor", "max": "max", "min": "min",
          "umax": "max_unsigned", "umin": "min_unsigned", "exch": "exchange"}  # fmt: skip


@rule("tt.addptr")
def _add(low: Lowering, op: Op) -> list[Tile]:
    base, offset = map(low.of, op.operands)
    pointee = op.operands[0].type.pointee or "i8"
    size = WIDTHS.get(pointee, 64) // 8
    wide = low.convert(offset, "i64")
    if size > 1:
        wide = low.binary("mul", wide, low.constant(size, Type("i64")))
    base = Tile(base.id, base.type.with_element("i64"), base.one)
    return [low.binary("add", base, wide, into=low.preferred.get(op.results[0]))]


def _mask(low: Lowering, value: Value | None) -> Tile | None:
    return None if value is None else low.of(value)


@rule("tt.load")
def _load(low: Lowering, op: Op) -> list[Tile]:
    kind = op.results[0].type
    low.reads_addresses |= kind.element == "ptr"
    addresses = low.of(op.operands[0])
    mask = _mask(low, op.operands[1] if len(op.operands) > 1 else None)
    other = _mask(low, op.operands[2] if len(op.operands) > 2 else None)
    # One address for all elements is one element, if the mask and what stands for masked elements are one too.
    one = addresses.one and (mask is None or mask.one) and (other is None or other.one)
    if not one:
        addresses = low.full(addresses)
    out = low.new(kind, one)
    ids = [-1 if t is None else t.id for t in (out, addresses, mask, other)]
    low.emit("load", [*ids, low.line(op)], ids)
    return [out]


@rule("tt.store")
def _store(low: Lowering, op: Op) -> list[Tile]:
    addresses, value = low.of(op.operands[0]), low.of(op.operands[1])
    mask = _mask(low, op.operands[2] if len(op.operands) > 2 else None)
    if not (addresses.one and value.one and (mask is None or mask.one)):
        addresses = low.full(addresses)  # else all elements write the same to one address
    ids = [addresses.id, value.id, -1 if mask is None else mask.id]
    low.emit("store", [*ids, low.line(op)], ids)
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
