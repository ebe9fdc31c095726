# SPDX-License-Identifier: BSD-3-Clause
"""Expressions that make tensors: dtypes, values, and every kind of strides."""

from __future__ import annotations

from random import Random
from typing import Any

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
LAYOUTS = ("permuted", "stepped", "offset", "expanded", "channels_last", "odd_ones", "reversed_pairs")


def values(shape: tuple[int, ...], dtype: torch.dtype, rng: Random) -> str:
    """A contiguous tensor of random values; now and then with NaNs or infinities."""
    if dtype in INTEGERS:
        limits = rng.choice([(0, 9), (1, 5)]) if dtype is torch.uint8 else rng.choice([(-4, 9), (-3, 3), (0, 5)])
        return filled(shape, dtype, *limits)
    if not dtype.is_floating_point or rng.random() >= 0.03:
        return filled(shape, dtype)
    special = rng.choice(["'nan'", "'inf'", "'-inf'"])
    return cast(f"torch.randn({shape}).masked_fill(torch.rand({shape}) > 0.9, float({special}))", dtype, torch.float32)


def filled(shape: Any, dtype: torch.dtype, low: int = 0, high: int = 1) -> str:
    """A contiguous tensor of random values; integers are from low to high - 1."""
    if dtype is torch.bool:
        return f"(torch.rand({shape}) > 0.4)"
    if dtype in INTEGERS:
        return cast(f"torch.randint({low}, {high}, {shape})", dtype, torch.int64)
    if dtype.is_complex:
        return f"torch.randn({shape}, dtype={dtype})"
    return cast(f"torch.randn({shape})", dtype, torch.float32)


def cast(text: str, dtype: torch.dtype, made: torch.dtype) -> str:
    return text if dtype == made else f"{text}.to({dtype})"


def tensor(shape: tuple[int, ...], dtype: torch.dtype, rng: Random, strange: float = 0.4) -> str:
    """With probability `strange` not contiguous."""
    if not shape or rng.random() >= strange:
        return values(shape, dtype, rng)
    layout = rng.choice(LAYOUTS)
    rank = len(shape)
    if layout == "permuted" and rank > 1:
        order = rng.sample(range(rank), rank)
        stored = [0] * rank
        for place, dim in enumerate(order):
            stored[dim] = shape[place]
        return f"{values(tuple(stored), dtype, rng)}.permute({order})"
    if layout == "stepped":
        return f"{values((*shape[:-1], 2 * shape[-1]), dtype, rng)}[..., ::2]"
    if layout == "offset":
        return f"{values((shape[0] + 1, *shape[1:]), dtype, rng)}[1:]"
    if layout == "expanded":
        dim = rng.randrange(rank)
        return f"{values((*shape[:dim], 1, *shape[dim + 1 :]), dtype, rng)}.expand({shape})"
    if layout == "channels_last" and rank in (4, 5):
        name = "channels_last" if rank == 4 else "channels_last_3d"
        return f"{values(shape, dtype, rng)}.to(memory_format=torch.{name})"
    if layout == "odd_ones" and 1 in shape:  # the stride of a dimension of size 1 may be anything
        contiguous = torch.empty(shape, device="meta").stride()
        strides = tuple(rng.choice([1, 3, step]) if size == 1 else step for size, step in zip(shape, contiguous))
        return f"{values(shape, dtype, rng)}.as_strided({shape}, {strides})"
    if layout == "reversed_pairs" and rank > 1:
        return f"{values((*shape[:-2], shape[-1], shape[-2]), dtype, rng)}.transpose(-1, -2)"
    return values(shape, dtype, rng)


def like(value: torch.Tensor) -> str:
    """An expression for another tensor of the same shape, dtype and strides, for a value that is cut out."""
    shape, strides = tuple(value.shape), tuple(value.stride())
    low = int(value.min()) if value.dtype in INTEGERS and value.numel() else 0
    high = min(int(value.max()) + 1, low + 100) if value.dtype in INTEGERS and value.numel() else 1
    text = filled(shape, value.dtype, low, high)
    if value.is_contiguous() and strides == torch.empty(shape, device="meta").stride():
        return text
    return f"torch.empty_strided({shape}, {strides}, dtype={value.dtype}).copy_({text})" if 0 not in strides else text
