# SPDX-License-Identifier: BSD-3-Clause
"""Rules of products, normalizations and ops of images, which take rows and images one by one."""

from __future__ import annotations

from math import inf
from typing import Any

import torch

from ...program.call_arguments import arguments_of
from ...program.support import overloads
from .rewrite import Node, Rewrite
from .table import RULES, again, all_dims, decline, limited, only, rule, value_of

aten = torch.ops.aten

_WEIGHT: Any = ("weight", lambda _: (), "of the weight")
RULES.update(
    {
        aten.linear.default: limited(("input", lambda ndim: range(ndim - 1), "which is summed"), _WEIGHT),
        torch.ops.atalla.int_convolution.default: limited(_WEIGHT, ("input", lambda _: (0,), "which the op joins")),
        aten._native_batch_norm_legit_no_training.default: limited(
            ("input", lambda ndim: {*range(ndim)} - {1}, "of channels")
        ),
        **dict.fromkeys(
            overloads("max_pool2d_with_indices", "max_pool2d", "avg_pool2d", "_adaptive_avg_pool2d"),
            limited(("self", lambda ndim: range(ndim - 2), "of an image")),
        ),
        **dict.fromkeys(
            overloads("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
            limited(("input", lambda _: (0,), "of an image"), ("grid", lambda ndim: range(ndim - 1), "of coordinates")),
        ),
    }
)


@rule(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default, aten._int_mm.default)
@rule(aten.addmm.default, aten.baddbmm.default)
def product(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    first, second = list(args)[1:3] if "beta" in args else list(args)[:2]
    left, right = value_of(args[first]).ndim - 1, max(0, value_of(args[second]).ndim - 2)
    filled = {first: rewrite.filled(args[first], [left], 0), second: rewrite.filled(args[second], [right], 0)}
    return again(rewrite, node, **filled)


@rule(aten.convolution.default)
def convolution(rewrite: Rewrite, node: Node) -> Any:
    """Images are independent, and what lies behind the end of a signal is zero."""
    args = arguments_of(node)
    source = args["input"]
    only(rewrite, args["weight"], (), "of the weight")
    image = range(2, value_of(source).ndim)
    only(rewrite, source, {0} if args["transposed"] else {0, *image}, "which the op joins")
    paddings = args["padding"] if len(args["padding"]) == len(image) else args["padding"] * len(image)
    padded = [dim for dim, pad in zip(image, paddings, strict=True) if pad != 0]
    return again(rewrite, node, input=rewrite.filled(source, padded, 0))


@rule(aten.scaled_dot_product_attention.default)
def attention(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    query, key, value = (args[name] for name in ("query", "key", "value"))
    keys = value_of(key).ndim - 2
    for item in (key, value):
        only(rewrite, item, range(keys + 1), "which is summed")
    only(rewrite, query, all_dims(query)[:-1], "which is summed")
    if args["dropout_p"]:
        decline(rewrite, "dropout")
    if keys not in rewrite.extents(key):
        return again(rewrite, node)
    filled = {"key": rewrite.filled(key, [keys], 0), "value": rewrite.filled(value, [keys], 0)}
    if not args["is_causal"]:
        filled["attn_mask"] = _visible(rewrite, key, keys, args["attn_mask"])
    elif rewrite.extents(query).get(keys) != rewrite.extents(key)[keys]:
        decline(rewrite, "a causal mask of other counts of queries than of keys")
    return again(rewrite, node, **filled)


def _visible(rewrite: Rewrite, key: Node, keys: int, mask: Node | None) -> Node:
    """The mask without the padding of keys."""
    hidden = rewrite.invalid(key, [keys])
    assert hidden is not None
    hidden = rewrite.call(aten.view.default, hidden, [*[1] * (keys + 1), value_of(hidden).shape[keys]])
    if mask is None:
        return rewrite.call(aten.logical_not.default, hidden)
    least = False if value_of(mask).dtype == torch.bool else -inf
    return rewrite.call(aten.masked_fill.Scalar, rewrite.new(mask), hidden, least)


@rule(aten.layer_norm.default, aten.native_layer_norm.default, aten.rms_norm.default, aten._fused_rms_norm.default)
def layer_norm(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    source = args["input"]
    rows = value_of(source).ndim - len(args["normalized_shape"])
    only(rewrite, source, range(rows), "which is normalized")
    return again(rewrite, node)
