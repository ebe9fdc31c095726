# SPDX-License-Identifier: BSD-3-Clause
"""Ranges, and tiles of the same elements in other shapes."""

from __future__ import annotations

import dataclasses

from ...program.ir import contiguous_strides
from ..ir import Op, Type
from ..lower import Lowering, Parts, Places, Tile, rule
from ..step_types import Gather, Histogram, PutView, Range


@rule("tt.make_range")
def _range(low: Lowering, op: Op) -> list[Tile]:
    out = low.new(op.results[0].type)
    low.emit(Range(out.id, op.attributes["start"]))
    return [out]


rule("tt.splat", "tt.unsplat", "tensor.extract")(
    lambda low, op: [Tile(low.of(op.operands[0]).id, op.results[0].type, True)]
)


@rule("tt.expand_dims", "tt.reshape")
def _reshape(low: Lowering, op: Op) -> list[Tile | Places]:
    source, kind = low.places_of(op.operands[0]), op.results[0].type
    if isinstance(source, Places):
        return [dataclasses.replace(source, offsets=_reshaped(source.offsets, kind), type=kind)]
    return [Tile(source.id, kind, source.one)]


def _reshaped(tile: Tile, kind: Type) -> Tile:
    return Tile(tile.id, Type(tile.type.element, kind.shape), tile.one)


@rule("tt.broadcast")
def _broadcast(low: Lowering, op: Op) -> list[Tile | Places]:
    source, kind = low.places_of(op.operands[0]), op.results[0].type
    if isinstance(source, Places):
        offsets = _broadcasted(low, source.offsets, Type(source.offsets.type.element, kind.shape))
        return [dataclasses.replace(source, offsets=offsets, type=kind)]
    return [_broadcasted(low, source, kind)]


def _broadcasted(low: Lowering, source: Tile, kind: Type) -> Tile:
    dims = source.type.dims
    strides = [0 if n == 1 else s for n, s in zip(dims, contiguous_strides(dims), strict=True)]
    out = low.view(source, kind, kind.dims, strides)
    if len(dims) == 2 and not out.one and (dims[0] == 1) != (dims[1] == 1) and source.id not in low.carried:
        low.parts[out.id] = Parts(source, None) if dims[1] == 1 else Parts(None, source)
    return out


rule("tt.trans")(lambda low, op: [low.permuted(low.of(op.operands[0]), op.attributes["order"])])


@rule("tt.join")
def _join(low: Lowering, op: Op) -> list[Tile]:
    kind = op.results[0].type
    out = low.new(kind)
    for k, operand in enumerate(op.operands):
        part = low.full(low.of(operand))
        low.emit(PutView(out.id, part.id, k, [part.type.count], [2]))
    return [out]


@rule("tt.split")
def _split(low: Lowering, op: Op) -> list[Tile]:
    source = low.of(op.operands[0])
    return [low.view(source, r.type, [r.type.count], [2], k) for k, r in enumerate(op.results)]


@rule("tt.cat")
def _concatenate(low: Lowering, op: Op) -> list[Tile]:
    out, at = low.new(op.results[0].type), 0
    for operand in op.operands:
        part = low.full(low.of(operand))
        n = part.type.count
        low.emit(PutView(out.id, part.id, at, [n], [1]))
        at += n
    return [out]


@rule("tt.gather")
def _gather(low: Lowering, op: Op) -> list[Tile]:
    source, index = (low.full(low.of(v)) for v in op.operands)
    dims, axis = source.type.dims, op.attributes["axis"]
    outer, inner = Type("i1", dims[:axis]).count, Type("i1", dims[axis + 1 :]).count
    if index.type.element not in ("i32", "i64"):
        index = low.convert(index, "i32")
    out = low.new(op.results[0].type)
    low.emit(Gather(out.id, source.id, index.id, outer, dims[axis], inner, low.line(op)))
    return [out]


@rule("tt.histogram")
def _histogram(low: Lowering, op: Op) -> list[Tile]:
    source = low.full(low.of(op.operands[0]))
    mask = low.of(op.operands[1]).id if len(op.operands) > 1 else -1
    counted = low.convert(source, "i32")
    out = low.new(op.results[0].type.with_element("i32"))
    low.emit(Histogram(out.id, counted.id, mask))
    return [low.convert(out, op.results[0].type.element)]
