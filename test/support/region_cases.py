# SPDX-License-Identifier: BSD-3-Clause
"""Calls of torchvision's ops: the name of an op, and arguments on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

Case = tuple[str, tuple[Any, ...]]


def boxes(n: int, size: float = 40.0, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """`n` boxes [n, 4] in an image of that size."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(n, 2, generator=generator) * size * 0.8
    return torch.cat([corner, corner + 1 + torch.rand(n, 2, generator=generator) * size * 0.4], 1).to(dtype)


def regions(n: int, images: int, size: float = 40.0, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """`n` regions [n, 5] of that many images; some leave the image, one is empty, one is reversed, one covers all."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.cat([torch.randint(images, (n, 1), generator=generator), boxes(n, size, seed)], 1)
    special = [(-30.0, -12.5, 9, 7), (3, 4, 3, 4), (30, 28, 11, 9), (0, 0, size, size), (33, 35, 2.4 * size, 3 * size),
               (5 * size, 5 * size, 6 * size, 6 * size)]  # fmt: skip
    for row, values in zip(found, special):
        row[1:] = torch.tensor(values)
    return found.to(dtype)


def _images(n: int, c: int, h: int, w: int, dtype: torch.dtype, seed: int = 1) -> Tensor:
    return torch.randn(n, c, h, w, generator=torch.Generator().manual_seed(seed)).to(dtype)


def nms_cases(dtype: torch.dtype) -> Iterator[Case]:
    for n in (0, 1, 7, 64, 300):
        for threshold in (0.0, 0.3, 0.5, 1.0):
            scores = torch.rand(n, generator=torch.Generator().manual_seed(n)).to(dtype)
            yield "nms", (boxes(n, seed=n, dtype=dtype), scores, threshold)
    ties = torch.tensor([[0, 0, 10, 10], [0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]], dtype=dtype)
    yield "nms", (ties, torch.tensor([0.5, 0.5, 0.5, 0.5], dtype=dtype), 0.5)
    # An overlap of exactly the threshold is kept.
    yield "nms", (torch.tensor([[0, 0, 4, 4], [0, 0, 4, 2]], dtype=dtype), torch.tensor([1, 0.5], dtype=dtype), 0.5)
    # Empty and reversed boxes have no overlap, or NaN.
    yield (
        "nms",
        (torch.tensor([[3, 3, 3, 3], [3, 3, 3, 3], [5, 5, 1, 1]], dtype=dtype), torch.ones(3, dtype=dtype), 0.1),
    )


def mean_cases(dtype: torch.dtype) -> Iterator[Case]:
    """Of roi_align, ps_roi_align and ps_roi_pool, with their gradients."""
    for c, p, q, h, w, scale, ratio in (
        (3, 2, 3, 20, 24, 0.5, 2), (70, 7, 7, 10, 9, 0.25, 2), (2, 4, 4, 40, 40, 1.0, 0), (1, 1, 1, 5, 5, 0.1, 3),
        (2, 3, 2, 33, 1, 0.8, -1),
    ):  # fmt: skip
        for n, k in ((2, 9), (1, 1), (3, 0)):
            rois = regions(k, n, seed=c, dtype=dtype)
            sizes = (n, c, h, w)
            grad = _images(k, c, p, q, dtype, seed=2)
            for aligned in (False, True):
                yield "roi_align", (_images(*sizes, dtype), rois, scale, p, q, ratio, aligned)
                yield "_roi_align_backward", (grad, rois, scale, p, q, *sizes, ratio, aligned)
            sizes = (n, 2 * p * q, h, w)
            grad = _images(k, 2, p, q, dtype, seed=3)
            mapping = torch.arange(2 * p * q, dtype=torch.int32).repeat(k, 1).view(k, 2, p, q)
            sampled = rois.clone()
            if ratio <= 0 and len(rois) > 2:  # without samples, upstream divides by zero
                sampled[1:3, 1:] = sampled.new_tensor([2, 2, 9, 9])
            yield "ps_roi_align", (_images(*sizes, dtype), sampled, scale, p, q, ratio)
            yield "_ps_roi_align_backward", (grad, sampled, mapping, scale, p, q, ratio, *sizes)
            yield "ps_roi_pool", (_images(*sizes, dtype), rois, scale, p, q)
            yield "_ps_roi_pool_backward", (grad, rois, mapping, scale, p, q, *sizes)


def max_cases(dtype: torch.dtype) -> Iterator[Case]:
    for c, p, q, h, w, scale in ((3, 2, 3, 20, 24, 0.5), (5, 7, 7, 10, 9, 0.25), (1, 1, 1, 40, 40, 1.0)):
        for n, k in ((2, 9), (3, 0)):
            rois, images = regions(k, n, seed=c, dtype=dtype), _images(n, c, h, w, dtype)
            images[0, 0, 3:5] = -torch.inf
            yield "roi_pool", (images, rois, scale, p, q)
            grad = _images(k, c, p, q, dtype, seed=2)
            argmax = torch.randint(-1, h * w, grad.shape, generator=torch.Generator().manual_seed(k)).int()
            yield "_roi_pool_backward", (grad, rois, argmax, scale, p, q, n, c, h, w)


def deform_cases(dtype: torch.dtype) -> Iterator[Case]:
    for n, c, o, size, kernel, stride, padding, dilation, groups, offset_groups, use_mask in (
        (2, 4, 6, (9, 8), (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True),
        (2, 4, 6, (9, 8), (3, 2), (2, 1), (0, 2), (1, 2), 2, 2, False),
        (1, 6, 3, (5, 70), (1, 3), (1, 1), (0, 1), (1, 1), 3, 2, True),
        (0, 2, 2, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1), 1, 1, True),
    ):

        def window(d: int) -> int:
            return (size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1  # noqa: B023

        p, q = window(0), window(1)
        taps = kernel[0] * kernel[1]
        weight, bias = _images(o, c // groups, *kernel, dtype, seed=4), _images(1, 1, 1, o, dtype, seed=5).view(-1)
        offset = 2 * _images(n, 2 * offset_groups * taps, p, q, dtype, seed=6)
        if groups > 1:  # on elements, and on the border
            offset = offset.round()
        mask = _images(n, offset_groups * taps, p, q, dtype, seed=7) if use_mask else torch.zeros(n, 1, dtype=dtype)
        rest = (*stride, *padding, *dilation, groups, offset_groups, use_mask)
        tensors = (_images(n, c, *size, dtype), weight, offset, mask, bias)
        yield "deform_conv2d", (*tensors, *rest)
        yield "_deform_conv2d_backward", (_images(n, o, p, q, dtype, seed=8), *tensors, *rest)


def all_cases(dtype: torch.dtype) -> Iterator[Case]:
    for cases in (nms_cases, mean_cases, max_cases, deform_cases):
        yield from cases(dtype)
