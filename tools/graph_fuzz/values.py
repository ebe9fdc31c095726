# SPDX-License-Identifier: BSD-3-Clause
"""Values of statements on the CPU, and which of them a program may have."""

from __future__ import annotations

import warnings
from typing import Any

import torch

MOST_ELEMENTS = 20_000


def has_overlap(value: torch.Tensor) -> bool:
    """Whether elements may share memory, as those of expanded tensors and of windows by unfold do."""
    reached = 0
    for stride, size in sorted((stride, size) for size, stride in zip(value.shape, value.stride()) if size > 1):
        if stride <= reached:
            return True
        reached += (size - 1) * stride
    return False


def acceptable(value: Any) -> bool:
    """Not too large, and mostly finite."""
    if not isinstance(value, torch.Tensor) or value.numel() > MOST_ELEMENTS or value.layout is not torch.strided:
        return False
    if value.ndim > 6 or (value.is_complex() and value.is_conj()) or value.is_neg():
        return False
    if value.is_floating_point() and value.numel():
        finite = value[torch.isfinite(value)]
        return finite.numel() * 2 > value.numel() and float(finite.abs().max()) < 3e4
    return True


def evaluate(text: str, scope: dict[str, Any]) -> Any:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return eval(text, {"torch": torch, "F": torch.nn.functional, **scope})


def execute(text: str, scope: dict[str, Any]) -> None:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exec(text, {"torch": torch, "F": torch.nn.functional, **scope})
