# SPDX-License-Identifier: BSD-3-Clause
"""Rules of ops that read and write through masks and indices."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from ...program.call_arguments import arguments_of
from .rewrite import Node, Rewrite, is_mask
from .table import again, all_dims, args_of, decline, only, rule, value_of

aten = torch.ops.aten


def places(rewrite: Rewrite, mask: Node, size: Any) -> Node:
    """The coordinates of the true elements, [bound, dimensions of the mask]; those of padding are zero."""
    true = rewrite.filled(mask, all_dims(mask), 0)
    if value_of(mask).dtype != torch.bool:
        true = rewrite.call(aten.ne.Scalar, true, 0)
    count = rewrite.call(aten.sum.dim_IntList, true, list(all_dims(mask)), False, dtype=torch.int64)
    most = rewrite.add_count(size, count, value_of(true).numel())
    return rewrite.call(aten.nonzero_static.default, true, size=most, fill_value=0)


@rule(aten.nonzero.default)
def nonzero(rewrite: Rewrite, node: Node) -> Node:
    return places(rewrite, args_of(node)[0], value_of(node).shape[0])


def _columns(rewrite: Rewrite, found: Node) -> list[Node]:
    return [rewrite.call(aten.select.int, found, 1, i) for i in range(value_of(found).shape[1])]


@rule(aten.masked_select.default)
def masked_select(rewrite: Rewrite, node: Node) -> Node:
    source, mask = args_of(node)
    shape = torch.broadcast_shapes(value_of(source).shape, value_of(mask).shape)
    if not shape or tuple(shape) != tuple(value_of(source).shape) or tuple(shape) != tuple(value_of(mask).shape):
        decline(rewrite, "a mask that broadcasts, or has no dimensions")
    found = places(rewrite, mask, value_of(node).shape[0])
    return rewrite.call(aten.index.Tensor, rewrite.new(source), _columns(rewrite, found))


def safe_index(rewrite: Rewrite, index: Node, source: Node, dim: int) -> Node:
    """An index whose padding is zero. Where the dimension has a count, negative ones count from its end."""
    new = rewrite.filled(index, all_dims(index), 0)
    extents = rewrite.extents(source)
    if dim not in extents:
        return new
    negative = rewrite.call(aten.lt.Scalar, new, 0)
    from_end = rewrite.call(aten.add.Tensor, new, rewrite.on_chip(extents[dim]))
    new = rewrite.call(aten.where.self, negative, from_end, new)
    # A place behind the count is an error, not padding.
    fits = rewrite.call(aten.lt.Tensor, new, rewrite.on_chip(extents[dim]))
    _check(rewrite, fits, rewrite.invalid(index, all_dims(index)))
    return new


def _check(rewrite: Rewrite, fits: Node, padding: Node | None) -> None:
    """Stops unless all indices fit that are not padding."""
    if padding is not None:
        fits = rewrite.call(aten.logical_or.default, fits, padding)
    rewrite.stop_unless(rewrite.call(aten.all.default, fits), "an index is out of range")


@rule(aten.index.Tensor)
def index(rewrite: Rewrite, node: Node) -> Node:
    source, indices = args_of(node)
    found: list[Any] = []
    masks = [item for item in indices if is_mask(item)]
    if len(masks) > 1:
        decline(rewrite, "several masks")
    for item in indices:
        if is_mask(item):
            size = _size_of_mask(rewrite, node, indices)
            found += _columns(rewrite, places(rewrite, item, size))
        else:
            found.append(None if item is None else safe_index(rewrite, item, source, len(found)))
    return rewrite.call(aten.index.Tensor, rewrite.new(source), found)


def _size_of_mask(rewrite: Rewrite, node: Node, indices: list[Any]) -> Any:
    """The size of the result that is the count of the mask."""
    given = [i for i, item in enumerate(indices) if item is not None]
    if len(given) != 1:
        decline(rewrite, "a mask beside other indices")
    return value_of(node).shape[given[0]]


@rule(aten.embedding.default)
def embedding(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    only(rewrite, args["weight"], (1,), "of the table")
    return again(rewrite, node, indices=rewrite.filled(args["indices"], all_dims(args["indices"]), 0))


@rule(aten.index_select.default, aten.gather.default)
def index_select(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    dim = args["dim"] % max(1, value_of(args["self"]).ndim)
    return again(rewrite, node, index=safe_index(rewrite, args["index"], args["self"], dim))


@rule(aten.masked_scatter.default)
def masked_scatter(rewrite: Rewrite, node: Node) -> Any:
    source = args_of(node)[2]
    mask = rewrite.filled(args_of(node)[1], all_dims(args_of(node)[1]), False)
    return scattered(rewrite, rewrite.new(args_of(node)[0]), mask, source)


def scattered(rewrite: Rewrite, target: Node, mask: Node, source: Node) -> Node:
    """The first elements of the source where the mask is true. The source has as many, without its padding."""
    extents = rewrite.extents(source)
    if extents:
        before = value_of(source).shape[: min(extents)]
        if len(extents) > 1 or prod(before) != 1:
            decline(rewrite, "only the first dimension of the source may have a count")
        shape = torch.broadcast_shapes(value_of(mask).shape, value_of(target).shape)
        wide = rewrite.call(aten.expand.default, mask, list(shape))
        wanted = rewrite.call(aten.sum.dim_IntList, wide, list(range(len(shape))), False, dtype=torch.int64)
        elements = prod(rewrite.expr(size) for size in value_of(source).shape)
        enough = rewrite.call(aten.le.Tensor, wanted, rewrite.on_chip(elements))
        rewrite.stop_unless(enough, "masked_scatter: expected as many elements as the mask has true ones")
    return rewrite.call(aten.masked_scatter.default, target, mask, rewrite.new(source))


@rule(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    target, indices, values = args["self"], args["indices"], args["values"]
    if any(map(is_mask, indices)):
        return _put_by_mask(rewrite, node, target, indices, values, args["accumulate"])
    given = [item for item in indices if item is not None]
    counted = [item for item in given if rewrite.extents(item)]
    shapes = [[rewrite.expr(size) for size in value_of(item).shape] for item in given]
    if counted and any(shape != shapes[0] for shape in shapes):
        decline(rewrite, "an index with a count that broadcasts")
    if not counted:
        return again(rewrite, node, indices=_safe(rewrite, indices, target))
    return _put_behind(rewrite, target, indices, counted[0], values, args["accumulate"])


def _safe(rewrite: Rewrite, indices: list[Any], target: Node) -> list[Any]:
    return [None if item is None else safe_index(rewrite, item, target, dim) for dim, item in enumerate(indices)]


def _put_behind(
    rewrite: Rewrite, target: Node, indices: list[Any], counted: Node, values: Node, accumulate: bool
) -> Node:
    dim = indices.index(counted)
    size = value_of(rewrite.new(target)).shape[dim]
    if size == 0:
        decline(rewrite, "a target of no elements")
    found = _safe(rewrite, indices, target)
    wrapped = rewrite.call(aten.where.self, rewrite.call(aten.lt.Scalar, found[dim], 0),
                           rewrite.call(aten.add.Tensor, found[dim], size), found[dim])  # fmt: skip
    padding = rewrite.invalid(counted, all_dims(counted))
    assert padding is not None
    longer, found[dim] = _one_row_more(rewrite, target, dim, wrapped, padding)
    written = rewrite.call(aten.index_put.default, longer, found, rewrite.new(values), accumulate)
    return rewrite.call(aten.slice.Tensor, written, dim, 0, size)


def _one_row_more(rewrite: Rewrite, target: Node, dim: int, index: Node, padding: Node) -> tuple[Node, Node]:
    """The target with a row behind it, which is to be cut off, and the index, whose padding is that row."""
    new = rewrite.new(target)
    size = value_of(new).shape[dim]
    _check(rewrite, rewrite.call(aten.lt.Scalar, index, size), padding)
    longer = rewrite.call(aten.cat.default, [new, rewrite.call(aten.slice.Tensor, new, dim, 0, 1)], dim)
    return longer, rewrite.call(aten.masked_fill.Scalar, index, padding, size)


def _put_by_mask(
    rewrite: Rewrite, node: Node, target: Node, indices: list[Any], values: Node, accumulate: bool
) -> Node:
    """One value fills the mask. Rows are written by masked_scatter, which takes them in order."""
    given = [i for i, item in enumerate(indices) if item is not None]
    if len(given) != 1 or accumulate:
        decline(rewrite, "a mask beside other indices, or a sum")
    mask, dim = indices[given[0]], given[0]
    true = rewrite.filled(mask, all_dims(mask), False)
    behind = value_of(target).ndim - dim - value_of(mask).ndim
    wide = rewrite.call(aten.view.default, true, [*value_of(true).shape, *[1] * behind]) if behind else true
    if not rewrite.extents(values) and value_of(values).numel() == 1:
        value = rewrite.call(aten.view.default, rewrite.new(values), [])
        return rewrite.call(aten.where.self, wide, value, rewrite.new(target))
    rows = value_of(target).ndim - value_of(mask).ndim + 1
    if not rewrite.extents(values) and (value_of(values).ndim < rows or value_of(values).shape[0] == 1):
        row = rewrite.new(values)
        if value_of(values).ndim >= rows:
            row = rewrite.call(aten.select.int, row, 0, 0)
        return rewrite.call(aten.where.self, wide, row, rewrite.new(target))
    if dim or value_of(values).ndim != rows:
        decline(rewrite, "values that broadcast over the mask")
    return scattered(rewrite, rewrite.new(target), wide, values)


@rule(aten.index_add.default, aten.scatter_add.default)
def index_add(rewrite: Rewrite, node: Node) -> Any:
    """Padding adds zero to the first row."""
    args = arguments_of(node)
    dim = args["dim"] % max(1, value_of(args["self"]).ndim)
    name = "source" if "source" in args else "src"
    found = safe_index(rewrite, args["index"], args["self"], dim)
    source = args[name]
    if (
        node.target is aten.scatter_add.default
        and rewrite.extents(args["index"])
        and (tuple(value_of(source).shape) != tuple(value_of(args["index"]).shape))
    ):
        decline(rewrite, "a source with other sizes than the index")
    return again(rewrite, node, index=found, **{name: rewrite.filled(source, all_dims(source), 0)})


@rule(aten.scatter_reduce.two, aten.scatter.src)
def scatter(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    target, index = args["self"], args["index"]
    dim = args["dim"] % max(1, value_of(target).ndim)
    padding = rewrite.invalid(index, all_dims(index))
    found = safe_index(rewrite, index, target, dim)
    if padding is None:
        return again(rewrite, node, index=found)
    longer, found = _one_row_more(rewrite, target, dim, found, padding)
    written = again(rewrite, node, self=longer, index=found)
    return rewrite.call(aten.slice.Tensor, written, dim, 0, value_of(rewrite.new(target)).shape[dim])
