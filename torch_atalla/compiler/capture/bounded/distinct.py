# SPDX-License-Identifier: BSD-3-Clause
"""Rules of ops that find distinct elements, whose number depends on data."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from ...program.call_arguments import arguments_of
from .order import flattened, last_filler, stable_order
from .rewrite import Node, Rewrite
from .table import decline, only, places_of, rule, value_of

aten = torch.ops.aten


@rule(aten._unique2.default, aten.unique_consecutive.default, aten.unique_dim.default)
def unique(rewrite: Rewrite, node: Node) -> Any:
    """The first elements of the runs of equal ones; a NaN equals nothing."""
    args, call = arguments_of(node), rewrite.call
    source = args["self"]
    if args.get("dim") is not None:
        decline(rewrite, "distinct slices; expected distinct elements (dim=None)")
    only(rewrite, source, (0,), "which is not the first")
    new = rewrite.filled(source, [0], last_filler(value_of(source).dtype, descending=False))
    shape, dtype = value_of(new).shape, value_of(new).dtype
    if value_of(new).numel() == 0:
        decline(rewrite, "a tensor of no elements")
    if dtype == torch.bool:
        new = call(aten._to_copy.default, new, dtype=torch.uint8)
    flat, order = flattened(rewrite, new), None
    if node.target is aten._unique2.default:
        flat, order = stable_order(rewrite, flat, 0)
    size = value_of(flat).numel()
    elements = rewrite.on_chip(prod((rewrite.expr(n) for n in value_of(source).shape), start=rewrite.expr(1)))
    before, after = (call(aten.slice.Tensor, flat, 0, start, size - 1 + start) for start in (0, 1))
    begins = call(aten.ne.Tensor, after, before)
    true = call(aten.full.default, [1], True, dtype=torch.bool, device=rewrite.device)
    begins = call(aten.cat.default, [true, begins])
    if rewrite.extents(source):
        begins = call(aten.logical_and.default, begins, call(aten.lt.Tensor, places_of(rewrite, size), elements))
    count = call(aten.sum.dim_IntList, begins, [0], False, dtype=torch.int64)
    values, inverse, counts = value_of(node)  # type: ignore[misc]
    most = rewrite.add_count(values.shape[0], count, size)
    first = call(aten.select.int, call(aten.nonzero_static.default, begins, size=most, fill_value=0), 1, 0)
    found = [call(aten.index_select.default, flat, 0, first)]
    if dtype == torch.bool:
        found[0] = call(aten._to_copy.default, found[0], dtype=dtype)
    if inverse.ndim == 1 and type(inverse.shape[0]) is int and inverse.shape[0] == 0:  # not asked for
        found.append(call(aten.full.default, [0], 0, dtype=torch.int64, device=rewrite.device))
    else:
        run = call(aten.sub.Tensor, call(aten.cumsum.default, begins, 0, dtype=torch.int64), 1)
        if order is not None:
            run = call(aten.scatter.src, call(aten.full_like.default, order, 0), 0, order, run)
        found.append(call(aten.view.default, run, list(shape)))
    if not rewrite.free(counts.shape[0]):
        found.append(call(aten.full.default, [0], 0, dtype=torch.int64, device=rewrite.device))
    else:
        last = call(aten.ge.Tensor, places_of(rewrite, most), call(aten.sub.Tensor, count, 1))
        following = call(aten.constant_pad_nd.default, call(aten.slice.Tensor, first, 0, 1, most), [0, 1])
        found.append(call(aten.sub.Tensor, call(aten.where.self, last, elements, following), first))
    return tuple(found)
