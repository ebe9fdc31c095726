# SPDX-License-Identifier: BSD-3-Clause
"""Differences between results on two devices, for the tools that write tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

TOLERANCE = 1e-4  # of difference() for float32


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference over the largest value expected; inf for other shapes, dtypes or places of infinities."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if not (expected.is_floating_point() or expected.is_complex()):
        return 0.0 if torch.equal(found, expected) else float("inf")
    finite = expected.isfinite()
    if not torch.equal(finite, found.isfinite()) or not torch.equal(expected.isnan(), found.isnan()):
        return float("inf")
    if not torch.equal(expected[expected.isinf()], found[expected.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
    wide = torch.complex128 if expected.is_complex() else torch.float64
    scale = expected[finite].to(wide).abs().max().item() or 1.0
    return (found.to(wide) - expected.to(wide))[finite].abs().max().item() / scale


def tensors(output: Any) -> list[torch.Tensor]:
    """All tensors of a model's output, in order."""
    values = list(output.values()) if hasattr(output, "values") else output
    return [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]


def floating(output: Any) -> list[torch.Tensor]:
    """The tensors of floating-point dtypes of a model's output, in order."""
    return [x for x in tensors(output) if x.is_floating_point()]


class Tensors(nn.Module):
    """A model's results without the containers that only its library knows. select: tensors, or floating. fixed: inputs
    that are constants of the module, such as sizes of images."""

    def __init__(
        self, model: nn.Module, select: Any = floating, fixed: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.select = select
        self.fixed = list(fixed or {})
        for name, value in (fixed or {}).items():
            self.register_buffer(f"fixed_{name}", value)

    def forward(self, **inputs: Any) -> list[torch.Tensor]:
        fixed = {name: getattr(self, f"fixed_{name}") for name in self.fixed}
        return self.select(self.model(**inputs, **fixed))
