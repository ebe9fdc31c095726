# SPDX-License-Identifier: BSD-3-Clause
"""Rules of ops that move, join and cut dimensions."""

from __future__ import annotations

from math import prod
from typing import Any

import sympy
import torch

from ...program.call_arguments import arguments_of
from .rewrite import Declined, Node, Rewrite
from .table import again, all_dims, args_of, decline, only, places_of, rule, size_of_example, value_of, within

aten = torch.ops.aten


@rule(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def view(rewrite: Rewrite, node: Node) -> Any:
    """Within a group of dimensions that become one, or become of one, only the first may have a count."""
    source, result = args_of(node)[0], node
    before, after = rewrite.extents(source), rewrite.extents(result)
    sizes = [[rewrite.at_bound(size) for size in value_of(item).shape] for item in (source, result)]
    fixed = [[size_of_example(size) for size in several] for several in sizes]
    exact = [[rewrite.expr(size) for size in value_of(item).shape] for item in (source, result)]
    for pieces in _groups(*fixed):
        products = [prod(several[d] for d in dims) for dims, several in zip(pieces, exact)]
        if products[0] != products[1]:
            decline(rewrite, f"{products[0]} elements become {products[1]}")
        for dims, extents, shape in zip(pieces, (before, after), exact):
            first = next((d for d in dims if shape[d] != 1 or d in extents), None)
            if any(d in extents and d != first for d in dims):
                decline(rewrite, "a dimension with a count is not the first that it joins")
    return rewrite.call(aten.view.default, _contiguous(rewrite, node), sizes[1])


def _contiguous(rewrite: Rewrite, node: Node) -> Node:
    new = rewrite.new(args_of(node)[0])
    sizes = [rewrite.at_bound(size) for size in value_of(node).shape]
    try:
        value_of(new).view(sizes)
    except RuntimeError:
        return rewrite.call(aten.clone.default, new, memory_format=torch.contiguous_format)
    return new


def _groups(before: list[int], after: list[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of dimensions with equal numbers of elements."""
    groups = []
    i = j = 0
    while i < len(before) or j < len(after):
        first, second = [i] if i < len(before) else [], [j] if j < len(after) else []
        i, j = i + len(first), j + len(second)
        while (a := prod(before[d] for d in first)) != (b := prod(after[d] for d in second)):
            if a < b and i < len(before):
                first.append(i)
                i += 1
            elif j < len(after):
                second.append(j)
                j += 1
            else:
                raise Declined("a view of no elements")
        groups.append((first, second))
    return groups


@rule(aten.select.int)
def select(rewrite: Rewrite, node: Node) -> Any:
    source, dim, index = (arguments_of(node)[name] for name in ("self", "dim", "index"))
    if dim % value_of(source).ndim in rewrite.extents(source):
        if not isinstance(index, int) or index < 0:
            decline(rewrite, "an index from the end of a dimension with a count")
        rewrite.require(
            rewrite.expr(rewrite.extents(source)[dim % value_of(source).ndim]) > index, "index out of range"
        )
    return again(rewrite, node)


@rule(aten.slice.Tensor)
def slice_(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    start, end = args["start"] or 0, args["end"]
    dim = args["dim"] % value_of(args["self"]).ndim
    moved = not isinstance(start, int) or start < 0 or (isinstance(end, int) and end < 0)
    if moved and dim in rewrite.extents(args["self"]) | rewrite.extents(node):
        decline(rewrite, "a slice from the end of a dimension with a count")
    return again(rewrite, node)


@rule(aten.cat.default)
def cat(rewrite: Rewrite, node: Node) -> Any:
    """Where a tensor with a count has others behind it, rows are gathered by their places."""
    tensors, dim = arguments_of(node)["tensors"], arguments_of(node)["dim"] % value_of(node).ndim
    counted = [dim in rewrite.extents(item) for item in tensors]
    joined = again(rewrite, node)
    if not any(counted[:-1]):
        return joined
    total = value_of(joined).shape[dim]
    places = places_of(rewrite, total)
    found, skipped, end = places, 0, 0
    for item in tensors[:-1]:  # a place at or behind the end of an item skips the padding of the item
        size = rewrite.at_bound(value_of(item).shape[dim])
        end = end + rewrite.expr(value_of(item).shape[dim])
        skipped = skipped + size
        begin = rewrite.on_chip(end)
        behind = rewrite.call(aten.ge.Tensor, places, begin)
        moved = rewrite.call(aten.add.Tensor, rewrite.call(aten.sub.Tensor, places, begin), skipped)
        found = rewrite.call(aten.where.self, behind, moved, found)
    return rewrite.call(aten.index_select.default, joined, dim, within(rewrite, found, total))


@rule(aten.constant_pad_nd.default)
def constant_pad_nd(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    value = args["value"]
    ndim = value_of(args["self"]).ndim
    pads = args["pad"]
    padded = [ndim - 1 - i // 2 for i, pad in enumerate(pads) if not (type(pad) is int and pad == 0)]
    if any(not isinstance(pads[i], int) for i in range(0, len(pads), 2)) or any(
        isinstance(p, int) and p < 0 for p in pads
    ):
        decline(rewrite, "a padding at the front that depends on data, or a negative one")
    return again(rewrite, node, self=rewrite.filled(args["self"], padded, value))


@rule(aten.repeat.default)
def repeat(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    front = len(args["repeats"]) - value_of(args["self"]).ndim
    for dim in rewrite.extents(args["self"]):
        if args["repeats"][front + dim] != 1:
            decline(rewrite, "repeats of a dimension with a count")
    return again(rewrite, node)


@rule(aten.unfold.default)
def unfold(rewrite: Rewrite, node: Node) -> Any:
    """Windows begin at the front."""
    if not all(isinstance(arguments_of(node)[name], int) for name in ("size", "step")):
        decline(rewrite, "the size of a window depends on data")
    return again(rewrite, node)


@rule(aten.split.Tensor, aten.unbind.int)
def split(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    dim = args["dim"] % value_of(args["self"]).ndim
    only(rewrite, args["self"], set(all_dims(args["self"])) - {dim}, "which is split")
    return again(rewrite, node)


@rule(aten.split_with_sizes.default)
def split_with_sizes(rewrite: Rewrite, node: Node) -> Any:
    """A piece behind one whose size depends on data is gathered by its places."""
    args = arguments_of(node)
    source, sizes = args["self"], [rewrite.expr(size) for size in args["split_sizes"]]
    dim = args["dim"] % value_of(source).ndim
    rewrite.require(
        sympy.Eq(sum(sizes), rewrite.expr(value_of(source).shape[dim])), "the sizes of a split have another sum"
    )
    new, begin, pieces = rewrite.new(source), sympy.Integer(0), []
    whole = value_of(new).shape[dim]
    for size in args["split_sizes"]:
        count = rewrite.new(size)
        if begin.is_Integer and int(begin) + count <= whole:
            piece = rewrite.call(aten.slice.Tensor, new, dim, int(begin), int(begin) + count)
        else:
            places = places_of(rewrite, count)
            places = rewrite.call(aten.add.Tensor, places, rewrite.on_chip(begin))
            piece = rewrite.call(aten.index_select.default, new, dim, within(rewrite, places, whole))
        pieces.append(piece)
        begin = begin + rewrite.expr(size)
    return tuple(pieces)


@rule(aten.flip.default)
def flip(rewrite: Rewrite, node: Node) -> Any:
    """A dimension with a count is gathered from its last valid place on."""
    args = arguments_of(node)
    extents = rewrite.extents(args["self"])
    dims = [dim % value_of(args["self"]).ndim for dim in args["dims"]]
    new = rewrite.call(aten.flip.default, rewrite.new(args["self"]), [dim for dim in dims if dim not in extents])
    for dim in extents.keys() & set(dims):
        places = places_of(rewrite, value_of(new).shape[dim])
        places = rewrite.call(aten.sub.Tensor, rewrite.on_chip(extents[dim] - 1), places)
        new = rewrite.call(aten.index_select.default, new, dim, rewrite.call(aten.clamp.default, places, 0))
    return new


@rule(aten.slice_scatter.default)
def slice_scatter(rewrite: Rewrite, node: Node) -> Any:
    """A source with a count, which is written from the front of a dimension, replaces as many elements."""
    args = arguments_of(node)
    target, source, dim = args["self"], args["src"], args["dim"] % value_of(node).ndim
    others = set(all_dims(source)) - {dim}
    if not rewrite.extents(source).keys() & {dim}:
        only(rewrite, source, others, "of the source")
        if not all(isinstance(args[name], int | None) for name in ("start", "end")):
            decline(rewrite, "its ends depend on data")
        return again(rewrite, node)
    if args["start"] not in (0, None) or args["step"] != 1:
        decline(rewrite, "a source with a count that is not written from the front")
    new, piece = rewrite.new(target), rewrite.new(source)
    size, most = value_of(new).shape[dim], value_of(piece).shape[dim]
    if most > size:
        piece = rewrite.call(aten.slice.Tensor, piece, dim, 0, size)
    padding = [0] * (2 * (value_of(node).ndim - dim) - 1) + [max(0, size - most)]
    piece = rewrite.call(aten.constant_pad_nd.default, piece, padding)
    places = places_of(rewrite, size)
    mask = rewrite.call(aten.lt.Tensor, places, rewrite.on_chip(rewrite.extents(source)[dim]))
    mask = rewrite.call(aten.view.default, mask, [size if d == dim else 1 for d in all_dims(node)])
    return rewrite.call(aten.where.self, mask, piece, new)


@rule(aten.select_scatter.default)
def select_scatter(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    if args["dim"] % value_of(node).ndim in rewrite.extents(args["self"]) or not isinstance(args["index"], int):
        decline(rewrite, "a dimension with a count")
    return again(rewrite, node)
