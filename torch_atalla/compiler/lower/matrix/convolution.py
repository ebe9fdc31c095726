# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions of one to three spatial dimensions."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers


@lowers("convolution.default", dtypes=FLOATING)
def convolution(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Value:
    if transposed:
        raise NotNativeError("transposed convolution")
    spatial = input.ndim - 2
    if not 1 <= spatial <= 3:
        raise NotNativeError(f"{spatial} spatial dimensions; the chip takes 1 to 3")
    out = ctx.result_of(node)
    if 0 in out.operand().sizes:
        return out

    def three(values: list[int], absent: int) -> list[int]:
        return list(values) * (spatial if len(values) == 1 else 1) + [absent] * (3 - spatial)

    ctx.launch(
        "convolution",
        [out],
        [input, weight, bias],
        out.dtype,
        groups=groups,
        stride=three(stride, 1),
        padding=three(padding, 0),
        dilation=three(dilation, 1),
    )
    return out
