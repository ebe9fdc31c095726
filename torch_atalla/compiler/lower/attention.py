# SPDX-License-Identifier: BSD-3-Clause
"""Scaled dot product attention: one fused launch, without the scores in DRAM."""

from __future__ import annotations

from math import prod, sqrt

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.loadable.errors import NotNativeError

from ..program.sizes import is_symbolic
from .context import LoweringContext
from .registry import lowers
from .value import Value
from .views import is_view


@lowers("scaled_dot_product_attention.default", dtypes=FLOATING)
def scaled_dot_product_attention(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Value:
    if dropout_p:
        raise NotNativeError(f"dropout_p={dropout_p} not taken; export the model in eval mode")
    if query.ndim < 2 or any(item.ndim != query.ndim for item in (key, value)):
        raise NotNativeError(f"ranks {query.ndim}, {key.ndim}, {value.ndim} not taken")
    if scale is None:
        if is_symbolic(query.shape[-1]):  # math.sqrt would fix the size
            raise NotNativeError("the scale, a floating-point number, depends on a dynamic size; pass `scale`")
        scale = 1.0 / sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    sizes = tuple(node.meta["val"].shape)
    lead = query.shape[:-2]
    if query.ndim == 4 and not enable_gqa:
        # Broadcast batches and heads.
        lead = sizes[:2]
        query, key, value = (item.expand((*lead, *item.shape[-2:])) for item in (query, key, value))
    out = ctx.result_of(node) if ctx.keep_strides or _is_returned(node) else _heads_innermost(ctx, sizes, query.dtype)
    q, k, v, result = (_four_dims(ctx, item) for item in (query, key, value, out))
    mask = None
    if attn_mask is not None:
        mask = attn_mask.expand((*lead, query.shape[-2], key.shape[-2]))
        mask = _four_dims(ctx, mask)
    ctx.launch("attention", [result, None], [q, k, v, mask], out.dtype, scale=scale, causal=is_causal or None)
    return out


def _is_returned(node: torch.fx.Node) -> bool:
    """Whether the result, or a view of it, is a result of the program, whose strides are part of its contract."""
    return any(
        user.op == "output"
        or (isinstance(user.target, torch._ops.OpOverload) and is_view(user.target))
        and _is_returned(user)
        for user in node.users
    )


def _heads_innermost(ctx: LoweringContext, sizes: tuple[int, ...], dtype: torch.dtype) -> Value:
    """In memory [b, l, h, ev], which is how the heads are merged afterwards; rank 3 and below are plain."""
    if len(sizes) != 4:
        return ctx.empty(sizes, dtype)
    b, h, rows, width = sizes
    out = ctx.empty((b, rows, h, width), dtype)
    return out.view(out.meta.transpose(1, 2))


def _four_dims(ctx: LoweringContext, value: Value) -> Value:
    """[b, h, l, e]; further leading dimensions are folded into b, missing ones are 1."""
    while value.ndim < 4:
        value = value.unsqueeze(0)
    return value if value.ndim == 4 else ctx.reshape(value, (prod(value.shape[:-3]), *value.shape[-3:]))
