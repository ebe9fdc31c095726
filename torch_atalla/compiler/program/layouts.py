# SPDX-License-Identifier: BSD-3-Clause
"""Strides of inputs, results and stored tensors: they are part of what torch.export fixed.

Whether an op gives a view or a copy depends on strides, and so does the order in which some kernels add. So a program
reads inputs with the strides of the export, gives results with those of the export, and at "none" and "exact" every
value in between has them too (`LoweringContext.keep_strides`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_non_overlapping_and_dense

from .sizes import Size, Symbols, to_size


def layout_of(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides as numbers that a program holds. Raises NotNativeError for those that depend on data."""
    return tuple(map(to_size, tensor.shape)), tuple(map(to_size, tensor.stride()))


def dense_meta(value: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same sizes at storage offset 0, in the same order of dimensions when that leaves no gaps."""
    return exact_meta(value) if is_non_overlapping_and_dense(value) else _contiguous_meta(value)


def exact_meta(value: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same sizes and strides at storage offset 0."""
    return torch.empty_strided(_fixed(value.shape), _fixed(value.stride()), dtype=value.dtype, device="meta")


def _contiguous_meta(value: torch.Tensor) -> torch.Tensor:
    return torch.empty(_fixed(value.shape), dtype=value.dtype, device="meta")


def _fixed(numbers: Sequence[int | torch.SymInt]) -> list[int | torch.SymInt]:
    """Symbols that guards have fixed since the tensor was made become ints: upstream's functions take a meta tensor
    with any SymInt for one of dynamic sizes, and fail where all sizes are ints again."""
    return [n if isinstance(n, int) or (known := n.node.maybe_as_int()) is None else known for n in numbers]


def input_meta(value: torch.Tensor, symbols: Symbols) -> torch.Tensor:
    """The layout in which a program reads an input: that of the export.

    An input is contiguous where its elements overlap in memory (an expanded one), since a caller may give one whose
    elements differ, and where gaps follow a dynamic size.
    """
    if is_non_overlapping_and_dense(value):
        return dense_meta(value)
    sizes, strides = layout_of(value)
    order = sorted(range(len(sizes)), key=lambda d: (int(strides[d]), int(sizes[d])))
    follows = any(isinstance(number, Size) for number in (*strides, *(sizes[d] for d in order[:-1])))
    if follows or not _are_distinct(sizes, strides) or symbols.least(sizes[order[-1]]) < 1:
        return _contiguous_meta(value)
    return exact_meta(value)


def result_meta(value: torch.Tensor, exported: torch.Tensor) -> torch.Tensor:
    """The layout in which a program gives a result that it holds as `value`: that of the export. Elements overlap only
    where those of `value` do in the same way; other results are contiguous."""
    if is_non_overlapping_and_dense(exported):
        return dense_meta(exported)
    (sizes, strides), (_, found) = layout_of(exported), layout_of(value)
    if strides == found or _are_distinct(sizes, strides):
        return exact_meta(exported)
    return _contiguous_meta(exported)


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """A parameter or buffer as it is stored: without gaps and overlaps, as a copy to a device has it."""
    return tensor if is_non_overlapping_and_dense(tensor) else tensor.clone(memory_format=torch.preserve_format)


def span(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Elements of memory from the first to the last one."""
    if any(type(size) is int and size == 0 for size in sizes):
        return 0
    return sum(((size - 1) * stride for size, stride in zip(sizes, strides)), 1)


def once_meta(meta: torch.Tensor) -> torch.Tensor:
    """Sees each place in memory of a result's layout once, of interleaved elements with the gaps between them."""
    sizes, strides = layout_of(meta)
    if _are_distinct(sizes, strides):
        return meta
    for dim, stride in enumerate(strides):
        if type(stride) is int and stride == 0:
            meta = meta.narrow(dim, 0, 1)
    if _are_distinct(*layout_of(meta)):
        return meta
    return meta.as_strided((span(tuple(meta.shape), tuple(meta.stride())),), (1,))


def _by_stride(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(size, stride) of dimensions of more than one element, innermost first."""
    pairs = [(size, stride) for size, stride in zip(sizes, strides) if isinstance(size, Size) or size > 1]
    return sorted(pairs, key=lambda pair: (int(pair[1]), int(pair[0])))


def _are_distinct(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether every element has a place of its own."""
    if any(type(size) is int and size == 0 for size in sizes):
        return True
    reached = 0  # of the dimensions within
    for size, stride in _by_stride(sizes, strides):
        if int(stride) <= int(reached):
            return False
        reached += (size - 1) * stride
    return True


def merged(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(size, stride) of the fewest dimensions that walk the same elements in the same order.

    Of sizes that are expressions only what holds for all values counts: one that may be 1 is not left out.
    """
    return _merged_numbers(sizes, strides) if are_numbers(sizes, strides) else _merged(sizes, strides)


def are_numbers(*several: tuple[int, ...]) -> bool:
    """Expressions must not enter a cache: programs have equal ones with different values."""
    return all(type(number) is int for numbers in several for number in numbers)


def _merged(sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides):
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found)


_merged_numbers = lru_cache(maxsize=4096)(_merged)
