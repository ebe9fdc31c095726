# SPDX-License-Identifier: BSD-3-Clause
"""Reductions and scans with a combination of the program's own, which runs on many pairs of elements at once."""

from __future__ import annotations

from ...program.ir import contiguous_strides
from ..ir import Op, Type
from ..lower import Lowering, Tile, rule
from ..step_types import Copy, Reduce, Scan
from ..words import Step


def _combination(low: Lowering, op: Op, count: int) -> tuple[list[int], list[int], list[int], list[Step]]:
    """Ids of the left and right arguments and of the results, and the steps between."""
    block = op.regions[0].entry
    tiles = [low.new(Type(a.type.element, (count,))) for a in block.arguments]
    # (A tile of one element would be taken for a constant.)
    for argument, tile in zip(block.arguments, tiles, strict=True):
        low.bound[argument] = Tile(tile.id, tile.type, False)
    half = len(tiles) // 2
    results: list[int] = []

    def body() -> None:
        end = low.block(block)
        assert end is not None
        for value, argument in zip(end.operands, tiles[:half], strict=True):
            result = low.new(argument.type)
            source = low.of(value)
            # An argument may be a result: a copy keeps what is read from what is written.
            if source.one and source.type.count == 1 and count > 1:
                raise op.fail("a combination that gives a constant")
            low.emit(Copy(result.id, source.id))
            results.append(result.id)

    low.depth += 1
    kept = low.preferred
    low.preferred = {}
    steps = low.inside(body)
    low.preferred = kept
    low.depth -= 1
    return [t.id for t in tiles[:half]], [t.id for t in tiles[half:]], results, steps


def _front(low: Lowering, tile: Tile, axis: int) -> Tile:
    """The tile with `axis` as its first dimension."""
    order = [axis, *(d for d in range(len(tile.type.dims)) if d != axis)]
    return low.permuted(low.full(tile), order)


def _emit(
    low: Lowering, kind: type[Reduce | Scan], op: Op, outs: list[Tile], sources: list[Tile], lanes: int, length: int
) -> None:
    left, right, results, steps = _combination(low, op, lanes * length)
    ids = [t.id for t in outs], [t.id for t in sources]
    low.emit(kind(lanes, length, *ids, left, right, results, steps))


@rule("tt.reduce")
def _reduce(low: Lowering, op: Op) -> list[Tile]:
    axis = op.attributes["axis"]
    sources = [_front(low, low.of(v), axis) for v in op.operands]
    length = sources[0].type.dims[0]
    lanes = sources[0].type.count // length
    outs = [low.new(r.type) for r in op.results]
    _emit(low, Reduce, op, outs, sources, lanes, length)
    return outs


@rule("tt.scan")
def _scan(low: Lowering, op: Op) -> list[Tile]:
    axis, reverse = op.attributes["axis"], bool(op.attributes.get("reverse", False))
    sources = [_front(low, low.of(v), axis) for v in op.operands]
    dims = sources[0].type.dims
    length, lanes = dims[0], sources[0].type.count // dims[0]
    if reverse:
        sources = [_flipped(low, t) for t in sources]
    outs = [low.new(t.type) for t in sources]
    _emit(low, Scan, op, outs, sources, lanes, length)
    if reverse:
        outs = [_flipped(low, t) for t in outs]
    rank = len(dims)
    back = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return [low.permuted(t, back) for t in outs]


def _flipped(low: Lowering, tile: Tile) -> Tile:
    dims = tile.type.dims
    strides = contiguous_strides(dims)
    return low.view(tile, tile.type, dims, [-strides[0], *strides[1:]], (dims[0] - 1) * strides[0])
