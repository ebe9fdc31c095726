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
from torch.utils._sympy.functions import Max

from .sizes import Size, Symbols, make_size, to_size


def layout_of(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides as numbers that a program holds. Raises NotNativeError for those that depend on data."""
    return tuple(map(to_size, tensor.shape)), tuple(map(to_size, tensor.stride()))


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill memory without gaps and overlaps, for all sizes that a call may have. (Upstream's
    function compares symbolic strides, and the program would take the sizes alone that give the example's answers.)"""
    sizes, strides = layout_of(tensor)
    return _fills(sizes, _by_stride(sizes, strides))


def is_contiguous(tensor: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
    """As the tensor's method, for all sizes that a call may have."""
    sizes, strides = layout_of(tensor)
    order = [*range(len(sizes))]
    if memory_format != torch.contiguous_format:
        order = [0, *order[2:], 1]  # channels innermost
    return _fills(
        sizes, [(sizes[d], strides[d]) for d in reversed(order) if isinstance(sizes[d], Size) or sizes[d] != 1]
    )


def _fills(sizes: tuple[int, ...], innermost_first: list[tuple[int, int]]) -> bool:
    if any(type(size) is int and size == 0 for size in sizes):
        return True
    inside = 1
    for size, stride in innermost_first:
        if stride != inside and _of_elements(stride) != inside:
            return False
        inside *= size
    return True


def _of_elements(stride: int) -> int:
    """The stride if no size within is 0, with which upstream's strides count as 1."""
    if not isinstance(stride, Size):
        return stride
    expr = stride.expr.replace(
        lambda part: isinstance(part, Max) and 1 in part.args, lambda part: Max(*(set(part.args) - {1}))
    )
    return make_size(int(stride), expr)


def same_layout(sizes: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether both strides put every element at the same place: those of dimensions of one element do not count."""
    return 0 in sizes or all(a == b for size, a, b in zip(sizes, one, other) if size > 1)


def dense_meta(value: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same sizes at storage offset 0, in the same order of dimensions when that leaves no gaps."""
    return exact_meta(value) if is_dense(value) else _contiguous_meta(value)


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
    if is_dense(value):
        return dense_meta(value)
    sizes, strides = layout_of(value)
    order = sorted(range(len(sizes)), key=lambda d: (int(strides[d]), int(sizes[d])))
    follows = any(isinstance(number, Size) for number in (*strides, *(sizes[d] for d in order[:-1])))
    if follows or not are_distinct(sizes, strides) or symbols.least(sizes[order[-1]]) < 1:
        return _contiguous_meta(value)
    return exact_meta(value)


def result_meta(value: torch.Tensor, exported: torch.Tensor) -> torch.Tensor:
    """The layout in which a program gives a result that it holds as `value`: that of the export. Elements overlap only
    where those of `value` do in the same way; other results are contiguous."""
    if is_dense(exported):
        return dense_meta(exported)
    (sizes, strides), (_, found) = layout_of(exported), layout_of(value)
    if strides == found or are_distinct(sizes, strides):
        return exact_meta(exported)
    return _contiguous_meta(exported)


def stored(tensor: torch.Tensor) -> torch.Tensor:
    """A parameter or buffer as it is stored: without gaps and overlaps, as a copy to a device has it."""
    return tensor if is_dense(tensor) else tensor.clone(memory_format=torch.preserve_format)


def span(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Elements of memory from the first to the last one."""
    if any(type(size) is int and size == 0 for size in sizes):
        return 0
    return sum(((size - 1) * stride for size, stride in zip(sizes, strides)), 1)


def once_meta(meta: torch.Tensor) -> torch.Tensor:
    """Sees each place in memory of a result's layout once, of interleaved elements with the gaps between them."""
    sizes, strides = layout_of(meta)
    if are_distinct(sizes, strides):
        return meta
    for dim, stride in enumerate(strides):
        if type(stride) is int and stride == 0:
            meta = meta.narrow(dim, 0, 1)
    if are_distinct(*layout_of(meta)):
        return meta
    return meta.as_strided((span(tuple(meta.shape), tuple(meta.stride())),), (1,))


def _by_stride(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(size, stride) of dimensions of more than one element, innermost first."""
    pairs = [(size, stride) for size, stride in zip(sizes, strides) if isinstance(size, Size) or size > 1]
    return sorted(pairs, key=lambda pair: (int(pair[1]), int(pair[0])))


def are_distinct(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
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
