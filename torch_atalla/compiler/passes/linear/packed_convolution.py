# SPDX-License-Identifier: BSD-3-Clause
"""The rule of pack_weights for convolutions: which weights `convolution_packed` can read, and the launch that does."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from ...program.ir import Launch, Operand, contiguous_strides
from ...program.layouts import same_layout
from .layout import contiguous_positions, is_static

_MOST_ELEMENTS = 1 << 27  # of an image with its padding; the kernel's limit is 2^28
_MOST_PHASES = 64


def convolution_weight(launch: Launch, buffer: int) -> Operand | None:
    """The weight [co, ci, kernel...] as the matrix [co, ci * kernel...]; None when the kernel cannot read it packed."""
    out, (image, weight, *bias) = launch.outputs[0], launch.inputs
    if not isinstance(weight, Operand) or weight.buffer != buffer or not isinstance(image, Operand) or out is None:
        return None
    images = (replace(operand, sizes=operand.sizes[1:], strides=operand.strides[1:]) for operand in (out, image))
    if not all(is_static(operand) for operand in (*images, weight)) or 0 in out.sizes or 0 in weight.sizes:
        return None
    if any(isinstance(other, Operand) and other.buffer == buffer for other in (image, *bias)):
        return None
    if {out.dtype, image.dtype, weight.dtype, launch.compute_dtype} != {torch.float32}:
        return None
    spatial = len(out.sizes) - 2
    strides, paddings, dilations = (launch.parameter(name)[:spatial] for name in ("stride", "padding", "dilation"))
    extents = [
        stride * size + dilation * taps + 2 * padding
        for stride, size, dilation, taps, padding in zip(
            strides, out.sizes[2:], dilations, weight.sizes[2:], paddings, strict=True
        )
    ]
    if launch.parameter("groups") != 1 or strides[-1] > _MOST_PHASES or image.sizes[1] * prod(extents) > _MOST_ELEMENTS:
        return None
    if not same_layout(weight.sizes, weight.strides, contiguous_strides(weight.sizes)):
        return None
    if not contiguous_positions(out):
        return None
    depth = prod(weight.sizes[1:])
    return Operand(buffer, weight.offset, (weight.sizes[0], depth), (depth, 1), weight.dtype)


def packed_convolution(launch: Launch, packed: Operand) -> Launch:
    """`packed` is [panels, depth, 32]; the launch sees [panels, ci, kernel..., 32]."""
    image, weight, *bias = launch.inputs
    assert isinstance(weight, Operand)
    sizes = (packed.sizes[0], *weight.sizes[1:], packed.sizes[2])
    seen = replace(packed, sizes=sizes, strides=contiguous_strides(sizes))
    return replace(launch, kernel=launch.contract.variants["packed"], inputs=(image, seen, *bias, None)[:3])
