# SPDX-License-Identifier: BSD-3-Clause
"""Pooling: `pool.*`, whose operands are [n, c, d, h, w]."""

from __future__ import annotations

from typing import Any

import torch

from ..dtypes import FLOATING, INTEGER
from ..errors import NotNativeError
from .context import LoweringContext, Value
from .registry import lowers


def _image(value: Value, spatial: int) -> Value:
    """With batch and depth."""
    if value.ndim == spatial + 1:
        value = value.unsqueeze(0)
    for _ in range(3 - spatial):
        value = value.unsqueeze(2)
    return value


def _spatial(values: list[int], spatial: int, absent: int) -> tuple[int, ...]:
    given = list(values) * (spatial if len(values) == 1 else 1)
    return tuple([absent] * (3 - spatial) + given)


@lowers("max_pool2d_with_indices.default", dtypes=FLOATING | INTEGER)
def max_pool2d(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> tuple[Value, Value | None]:
    """The indices are stored only where they are read."""
    metas = [torch.empty_like(meta, device="meta") for meta in node.meta["val"]]
    out = ctx.new_value(metas[0])
    read = any(user.args[1] != 0 for user in node.users if len(user.args) == 2)
    indices = ctx.new_value(metas[1]) if read else None
    iparams = _spatial(kernel_size, 2, 1) + _spatial(stride or kernel_size, 2, 1)
    iparams += _spatial(padding, 2, 0) + _spatial(dilation, 2, 1)
    places = [_image(out, 2), None if indices is None else _image(indices, 2)]
    ctx.launch("pool.max", places, [_image(self, 2)], self.dtype, iparams)
    return out, indices


@lowers("avg_pool2d.default", dtypes=FLOATING)
def avg_pool2d(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    out = ctx.result_of(node)
    iparams = _spatial(kernel_size, 2, 1) + _spatial(stride or kernel_size, 2, 1) + _spatial(padding, 2, 0)
    iparams += (int(count_include_pad), divisor_override or 0)
    ctx.launch("pool.average", [_image(out, 2)], [_image(self, 2)], out.dtype, iparams)
    return out


@lowers("_adaptive_avg_pool2d.default", dtypes=FLOATING)
def adaptive_avg_pool2d(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, output_size: Any) -> Value:
    if self.ndim not in (3, 4):
        raise NotNativeError(f"an image of rank {self.ndim}")
    out = ctx.result_of(node)
    ctx.launch("pool.adaptive_average", [_image(out, 2)], [_image(self, 2)], out.dtype)
    return out
