# SPDX-License-Identifier: BSD-3-Clause
"""Windows of an image as columns, and back: taps and positions are dimensions of their own."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import ALL, INTEGER

from ..context import LoweringContext, Value
from ..registry import lowers


@lowers("im2col.default", dtypes=ALL - INTEGER, operands=ALL)
def im2col(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Value:
    sizes = _windows(self, kernel_size, dilation, padding, stride)
    out = ctx.empty(sizes, self.dtype)
    ctx.launch("im2col", [out], [_batch(self)], out.dtype, dilation=dilation, padding=padding, stride=stride)
    return out.view(out.meta.view(node.meta["val"].shape))


@lowers("col2im.default", dtypes=ALL - INTEGER, operands=ALL)
def col2im(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    output_size: list[int],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Value:
    out = ctx.empty(node.meta["val"].shape, self.dtype)
    columns = ctx.reshape(self, _windows(out, kernel_size, dilation, padding, stride))
    ctx.launch("col2im", [_batch(out)], [columns], out.dtype, dilation=dilation, padding=padding, stride=stride)
    return out


def _batch(image: Value) -> Value:
    return image if image.ndim == 4 else image.unsqueeze(0)


def _windows(
    image: Value, kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> tuple[int, ...]:
    """[n, c, kernel h, kernel w, positions h, positions w]"""
    n, c, *sizes = _batch(image).shape
    positions = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
    return (n, c, *kernel, *positions)
