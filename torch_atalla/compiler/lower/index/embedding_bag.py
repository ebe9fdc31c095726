# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a table, reduced over bags of indices."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers, reads
from .indexing import check_index

_SUM, _MEAN, _MAX = range(3)  # upstream's numbers of modes


@lowers("_embedding_bag.default", "_embedding_bag_forward_only.default", dtypes=FLOATING)
def embedding_bag(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    weight: Value,
    indices: Value,
    offsets: Value,
    mode: int,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int,
    **_: object,  # what concerns gradients only
) -> tuple[Value | None, ...]:
    """Beside the rows: the bag of each index, the size of each bag and the index of each maximum, for the gradient.
    What they hold depends on the mode in the way that upstream's results do."""
    for value in (indices, offsets):
        check_index(value)
    common = indices.dtype if indices.dtype == offsets.dtype else torch.int64
    rows = ctx.cast(ctx.reshape(indices, (indices.meta.numel(),)), common)
    starts = ctx.cast(offsets, common)
    bags, width = node.meta["val"][0].shape
    unnamed = _sums_without_bags(weight, mode, per_sample_weights, padding_idx)
    has_end = include_last_offset and unnamed
    if include_last_offset and not unnamed:  # the last bag takes all that is left
        starts = starts.view(starts.meta.narrow(0, 0, bags))

    out = ctx.empty((bags, width), weight.dtype)
    bag_of = _zeros(ctx, (0,) if unnamed else rows.shape, common) if reads(node, 1) else None
    sized, winning = reads(node, 2) or reads(node, 3), mode == _MAX
    sizes = _zeros(ctx, (bags,), common) if sized or mode != _SUM else None
    winners = _zeros(ctx, (bags, width), common) if winning else sizes
    outputs = [out, None if unnamed else bag_of, None if mode == _SUM else sizes, winners if winning else None]
    inputs = [weight, rows, starts, per_sample_weights]
    ctx.launch("embedding_bag", outputs, inputs, out.dtype, mode=mode, padding_index=padding_idx, has_end=has_end)
    results: tuple[Value | None, ...] = (out, bag_of, sizes, winners)
    for k, given in enumerate(results):
        if reads(node, k) and given is not None and given.shape != tuple(node.meta["val"][k].shape):
            raise NotNativeError(f"result {k} has the sizes {list(given.shape)} on the chip")
    return results


def _zeros(ctx: LoweringContext, sizes: tuple[int, ...], dtype: torch.dtype) -> Value:
    out = ctx.empty(sizes, dtype)
    ctx.fill(out, 0)
    return out


def _sums_without_bags(weight: Value, mode: int, scale: Value | None, padding_idx: int) -> bool:
    """Where upstream adds up rows without knowing the bag of each, the last offset ends the last bag."""
    rows = weight.meta.stride()[1] == 1 and (scale is None or scale.meta.stride()[0] == 1)
    return mode == _SUM and weight.dtype != torch.float64 and rows and padding_idx < 0
