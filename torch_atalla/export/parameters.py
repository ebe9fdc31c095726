# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of kernels by name, and their places in a launch (csrc/sim/kernels.yaml)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from .errors import ExportError

TABLE = Path(__file__).parents[1] / "_generated" / "kernel_parameters.json"


_Slot = tuple[str, int, int]  # "i" for iparams or "f" for fparams, the first place, the number of values


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, dict[str, _Slot]]]:
    """Of this build. Raises ExportError if the package was not built."""
    if not TABLE.is_file():
        raise ExportError(f"expected the table of kernel parameters at {TABLE}: build the package first (make build)")
    return {
        kernel: {name: {key: (slot[0], slot[1], slot[2]) for key, slot in slots.items()} for name, slots in row.items()}
        for kernel, row in json.loads(TABLE.read_text()).items()
    }


def _slot(kernel: str, name: str, compute_dtype: torch.dtype) -> _Slot:
    slots = _table()[kernel].get(name)
    if slots is None:
        raise ValueError(f"{kernel}: no parameter `{name}`; expected one of {', '.join(_table()[kernel])}")
    integer = not (compute_dtype.is_floating_point or compute_dtype.is_complex)
    return slots["integer"] if integer and "integer" in slots else slots["slot"]


def names(kernel: str) -> tuple[str, ...]:
    """All parameters of a kernel."""
    return tuple(_table()[kernel])


def pack(kernel: str, compute_dtype: torch.dtype, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The iparams and fparams of a launch, up to the last given one. A parameter that is None is not given.

    Raises ValueError for an unknown parameter, or a wrong number of values.
    """
    places: dict[str, dict[int, Any]] = {"i": {}, "f": {}}
    for name, value in given.items():
        if value is None:
            continue
        bank, first, count = _slot(kernel, name, compute_dtype)
        values = tuple(value) if count > 1 else (value,)
        if len(values) != count:
            raise ValueError(f"{kernel}: parameter `{name}` has {len(values)} values; expected {count}")
        for i, item in enumerate(values):
            places[bank][first + i] = item
    integers, floats = (tuple(p.get(i, 0) for i in range(max(p, default=-1) + 1)) for p in (places["i"], places["f"]))
    return integers, floats


def unpack(kernel: str, compute_dtype: torch.dtype, name: str, iparams: tuple, fparams: tuple) -> Any:
    """One parameter: a value, or a tuple of them if the parameter has several. Those that a launch leaves out are 0."""
    bank, first, count = _slot(kernel, name, compute_dtype)
    given = iparams if bank == "i" else fparams
    values = tuple(given[i] if i < len(given) else 0 for i in range(first, first + count))
    return values if count > 1 else values[0]
