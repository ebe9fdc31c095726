# SPDX-License-Identifier: BSD-3-Clause
"""The gradient of a convolution's weights, which arrives as a convolution of many images with a kernel as large as they
are: one matrix product for each of its few results per image."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from ....program.ir import Launch, Operand
from ..selection import Selection
from . import data
from .image import padded
from .matrix import dense, product

Two = tuple[int, int]
MOST_PLACES = 64  # results per image
MOST_K = 15_328  # of one product


def applies(x: Operand, weight: Operand, out: Operand) -> bool:
    """x [c, n, h, w], weight [o, n, kh, kw], out [c, o, *places]: whether products by place move less than a
    convolution, which loads the weights for every image."""
    places, taps = prod(out.sizes[2:]), prod(weight.sizes[2:])
    return places <= MOST_PLACES and (taps > 8 * places or x.sizes[0] > 2 * places)


def emit(s: Selection, x: Operand, weight: Operand, out: Operand, stride: Two, padding: Two, dilation: Two) -> None:
    c, n, h, w = x.sizes
    o, _, kh, kw = weight.sizes
    ph, pw = out.sizes[2:]
    images = replace(x, sizes=(n, c, h, w), strides=(x.strides[1], x.strides[0], *x.strides[2:]))
    reach = zip((ph, pw), stride, (kh, kw), dilation)
    need = [(p - 1) * st + (k - 1) * d + 1 for p, st, k, d in reach]
    size = (max(need[0], h + padding[0]), max(need[1], w + padding[1]))
    image = padded(s, images, padding, size, 0.0, c)
    k = n * kh * kw
    left = dense(s, weight)
    results = s.new((ph * pw, o, c))
    for place in range(ph * pw):
        start = place // pw * stride[0] * image.strides[2] + place % pw * stride[1] * image.strides[3]
        taps = (image.strides[0], dilation[0] * image.strides[2], dilation[1] * image.strides[3], 1)
        view = replace(image, offset=2 * start, sizes=(n, kh, kw, c), strides=taps)
        right = s.new(view.sizes)
        data.emit_copy(s, right, view)
        result = replace(results, offset=2 * place * o * c, sizes=(1, o, c), strides=(o * c, c, 1))
        for first in range(0, k, MOST_K):
            count = min(MOST_K, k - first)
            a = replace(left, offset=2 * first, sizes=(1, o, count), strides=(o * k, k, 1))
            b = replace(right, offset=2 * first * c, sizes=(1, count, c), strides=(k * c, c, 1))
            before = result if first else None
            launch = Launch("gemm", (result,), (a, b, before), torch.bfloat16)
            product(s, launch.with_parameters(alpha=1.0, beta=1.0 if first else 0.0, activation="none"))
    data.emit_copy(s, out, replace(results, sizes=(c, o, ph, pw), strides=(1, c, pw * o * c, o * c)))
