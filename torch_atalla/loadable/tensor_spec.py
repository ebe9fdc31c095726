# SPDX-License-Identifier: BSD-3-Clause
"""Inputs and outputs of a program: name, dtype, shape and strides of each tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from torch_atalla.driver.dtypes import from_name
from torch_atalla.driver.dtypes import name as dtype_name

ValueType = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]  # dtype, shape, strides


@dataclass(frozen=True)
class TensorSpec:
    """Name and type of an input or output.

    For a dimension whose size the call determines, `dynamic` has the legal sizes or the expression as text, and `shape`
    has the size for which memory was planned. For other dimensions, `dynamic` has None.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dynamic: tuple[str | None, ...] = ()

    def __str__(self) -> str:
        dims = self.dynamic or (None,) * len(self.shape)
        shown = ", ".join(str(size) if text is None else text for size, text in zip(self.shape, dims))
        return f"{self.name}: {dtype_name(self.dtype)}[{shown}]"

    def is_dynamic(self, dim: int) -> bool:
        """Return whether the call determines the size of a dimension."""
        return bool(self.dynamic) and self.dynamic[dim] is not None

    def mismatch(self, shape: tuple[int, ...]) -> bool:
        """Return whether a shape has another rank or differs in a static dimension."""
        return len(shape) != len(self.shape) or any(
            size != given and not self.is_dynamic(dim) for dim, (size, given) in enumerate(zip(self.shape, shape))
        )


def value_type(value: dict[str, Any]) -> ValueType:
    return from_name(value["dtype"]), tuple(value["sizes"]), tuple(value["strides"])


def read_spec(data: dict[str, Any], port: dict[str, Any]) -> TensorSpec:
    dtype, shape, strides = value_type(data["values"][port["value"]])
    index = data["inputs"].index(port) if port in data["inputs"] else -1
    ranges = {symbol["dim"]: symbol["sizes"] for symbol in data["symbols"] if symbol["input"] == index}
    dynamic = tuple(ranges.get(dim, text) if text is not None else None for dim, text in enumerate(port["dynamic"]))
    return TensorSpec(port["name"], dtype, shape, strides, dynamic if any(dynamic) else ())
