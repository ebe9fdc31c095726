# SPDX-License-Identifier: BSD-3-Clause
"""Rules of ops that order elements: padding comes last, in a stable order."""

from __future__ import annotations

from math import nan, prod
from typing import Any

import torch

from ...program.call_arguments import arguments_of
from .reductions import highest, lowest
from .rewrite import Node, Rewrite
from .table import again, all_dims, args_of, decline, rule, value_of

aten = torch.ops.aten


def last_filler(dtype: torch.dtype, descending: bool) -> Any:
    """Padding that comes behind all elements, or behind those that equal it. NaN comes last, or first if descending."""
    if descending:
        return lowest(dtype)
    return nan if dtype.is_floating_point else highest(dtype)


def stable_order(rewrite: Rewrite, new: Node, dim: int, descending: bool = False) -> tuple[Node, Node]:
    return rewrite.call(aten.sort.stable, new, stable=True, dim=dim, descending=descending)


@rule(aten.sort.default, aten.sort.stable, aten.argsort.default, aten.argsort.stable, aten.topk.default)
def sort(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    source = args["self"]
    dim = args["dim"] % max(1, value_of(source).ndim)
    extents = rewrite.extents(source)
    if dim not in extents:
        return again(rewrite, node)
    descending = bool(args["largest"] if "largest" in args else args["descending"])
    new = rewrite.filled(source, [dim], last_filler(value_of(source).dtype, descending))
    values, order = stable_order(rewrite, new, dim, descending)
    if "k" not in args:
        return order if isinstance(value_of(node), torch.Tensor) else (values, order)
    if not isinstance(args["k"], int):
        decline(rewrite, "k depends on data")
    rewrite.require(extents[dim] >= args["k"], "selected index k out of range")
    return tuple(rewrite.call(aten.slice.Tensor, part, dim, 0, args["k"]) for part in (values, order))


@rule(aten.median.dim, aten.nanmedian.dim)
def median_of_rows(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    source, keep = args["self"], args["keepdim"]
    dim = args["dim"] % max(1, value_of(source).ndim)
    extents = rewrite.extents(source)
    if dim not in extents:
        return again(rewrite, node)
    rewrite.require(extents[dim] >= 1, "a median of no elements")
    new = rewrite.filled(source, [dim], last_filler(value_of(source).dtype, descending=False))
    found = _median(rewrite, new, dim, rewrite.on_chip(extents[dim]), node.target is aten.nanmedian.dim)
    return tuple(part if keep else rewrite.call(aten.squeeze.dim, part, dim) for part in found)


@rule(aten.median.default, aten.nanmedian.default)
def median(rewrite: Rewrite, node: Node) -> Any:
    (source,) = args_of(node)
    dtype = value_of(source).dtype
    if not rewrite.extents(source):
        return again(rewrite, node)
    elements = prod(rewrite.expr(size) for size in value_of(source).shape)
    if not dtype.is_floating_point:
        rewrite.require(elements >= 1, "a median of no integers")
    flat = flattened(rewrite, rewrite.filled(source, all_dims(source), last_filler(dtype, descending=False)))
    found, _ = _median(rewrite, flat, 0, rewrite.on_chip(elements), node.target is aten.nanmedian.default)
    return rewrite.call(aten.view.default, found, [])


def _median(rewrite: Rewrite, new: Node, dim: int, count: Node, skip_nan: bool) -> tuple[Node, Node]:
    """The lower median of `count` elements among padding, which comes last; the first NaN if there is one, unless NaNs
    are skipped. With the dimension."""
    call = rewrite.call
    values, order = stable_order(rewrite, new, dim)
    shape = [1 if d == dim else size for d, size in enumerate(value_of(values).shape)]
    numbers = call(aten.expand.default, count, shape)
    first_nan: Node | None = None
    if value_of(values).dtype.is_floating_point:
        first_nan = call(aten.sum.dim_IntList, call(aten.eq.Tensor, values, values), [dim], True, dtype=torch.int64)
    half = call(aten.sub.Tensor, numbers if first_nan is None or not skip_nan else first_nan, 1)
    place = call(aten.clamp.default, call(aten.div.Tensor_mode, half, 2, rounding_mode="floor"), 0)
    if first_nan is not None and not skip_nan:
        place = call(aten.where.self, call(aten.lt.Tensor, first_nan, numbers), first_nan, place)
    return call(aten.gather.default, values, dim, place), call(aten.gather.default, order, dim, place)


def flattened(rewrite: Rewrite, new: Node) -> Node:
    if not value_of(new).is_contiguous():
        new = rewrite.call(aten.clone.default, new, memory_format=torch.contiguous_format)
    return rewrite.call(aten.view.default, new, [value_of(new).numel()])
