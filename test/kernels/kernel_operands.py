# SPDX-License-Identifier: BSD-3-Clause
"""Operands, indices and elements as the values of csrc/sim/kernels.yaml see them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class Undefined(Exception):
    """The value of an element is not defined: the largest of no elements, or of complex ones, or it is left open."""


class Vector(tuple[Any, ...]):
    """Indices or sizes of several dimensions. Arithmetic is by element; the shorter operand decides how many."""

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Vector:
        others = other if isinstance(other, tuple) else itertools.repeat(other)
        return Vector(operation(a, b) for a, b in zip(self, others))

    def __add__(self, other: Any) -> Vector:  # type: ignore[override]
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Vector:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Vector:  # type: ignore[override]
        return self._with(other, lambda a, b: a * b)

    def __mod__(self, other: Any) -> Vector:
        return self._with(other, lambda a, b: a % b)


class Elements:
    """An operand: a tensor of the host, or the value of an immediate one, or nothing."""

    def __init__(self, tensor: torch.Tensor | None, immediate: bool = False, dtype: torch.dtype | None = None):
        """`dtype`: that to which elements are converted when they are read."""
        self.tensor, self.dtype = tensor, dtype
        self.sizes = Vector(tensor.shape if tensor is not None else ())
        self.is_number = immediate or not self.sizes
        self.numbers: list[Any] = [] if tensor is None else tensor.reshape(-1).tolist()

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        if self.tensor is None:
            return None
        place = 0
        if not self.is_number:
            if len(index) != len(self.sizes):
                raise IndexError(f"{tuple(index)} of {tuple(self.sizes)}")
            for i, n in zip(index, self.sizes):
                if not 0 <= i < n:
                    raise IndexError(f"{tuple(index)} of {tuple(self.sizes)}")
                place = place * n + i
        value = self.numbers[place]
        if self.dtype is not None:
            value = stored(value, self.dtype)
        return np.float64(value) if isinstance(value, float) else value

    def at(self, default: Any, *index: int) -> Any:
        inside = len(index) == len(self.sizes) and all(0 <= i < n for i, n in zip(index, self.sizes))
        return self[index] if inside else default


def stored(value: Any, dtype: torch.dtype) -> Any:
    """What an element of the dtype holds of a value."""
    if dtype == torch.bool:
        return bool(value != 0)
    if dtype.is_complex:
        return complex(value)
    if isinstance(value, complex):
        value = value.real
    if dtype.is_floating_point:
        return float(value)
    if not math.isfinite(value):
        raise Undefined
    info = torch.iinfo(dtype)
    return (int(value) - info.min) % (1 << info.bits) + info.min
