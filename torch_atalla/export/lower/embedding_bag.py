# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a table, reduced over bags of indices."""

from __future__ import annotations

import torch

from ..dtypes import FLOATING
from ..errors import NotNativeError
from .context import LoweringContext, Value
from .indexing import check_index
from .registry import lowers, reads

_SUM, _MEAN, _MAX = 0, 1, 2


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
) -> tuple[Value, None, None, None]:
    """The other results serve the gradient."""
    if any(reads(node, k) for k in (1, 2, 3)):
        raise NotNativeError("the results for the gradient of embedding_bag")
    for value in (indices, offsets):
        check_index(value)
    common = indices.dtype if indices.dtype == offsets.dtype else torch.int64
    rows = ctx.cast(ctx.reshape(indices, (indices.meta.numel(),)), common)
    starts = ctx.cast(offsets, common)
    has_end = include_last_offset
    if has_end and not _sums_without_bags(weight, mode, per_sample_weights, padding_idx):
        # The last bag takes all that is left.
        starts, has_end = starts.view(starts.meta[:-1]), False
    out = ctx.empty(node.meta["val"][0].shape, weight.dtype)
    # In these modes the kernel counts and names what it reduces.
    sizes = None if mode == _SUM else ctx.empty((out.shape[0],), common)
    winners = ctx.empty(out.shape, common) if mode == _MAX else None
    inputs = [weight, rows, starts, per_sample_weights]
    ctx.launch("embedding_bag", [out, None, sizes, winners], inputs, out.dtype, (mode, padding_idx, int(has_end)))
    return out, None, None, None


def _sums_without_bags(weight: Value, mode: int, scale: Value | None, padding_idx: int) -> bool:
    """Where upstream adds up rows without knowing the bag of each, the last offset ends the last bag."""
    rows = weight.meta.stride()[1] == 1 and (scale is None or scale.meta.stride()[0] == 1)
    return mode == _SUM and weight.dtype != torch.float64 and rows and padding_idx < 0
