# SPDX-License-Identifier: BSD-3-Clause
"""Choices by floating-point scores, such as the queries of a detector, and how clear they are.

Two correct computations of a score differ by rounding. Where two scores are nearer to each other than that, both orders
are right, and everything after the choice differs. A comparison of outputs is sound only for clear choices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

CLEAR = 1e-5  # gap between two scores over the largest score; float32 rounds the scores of a model by 1e-6 at most
aten = torch.ops.aten
FIRST = (aten.argmax.default, aten.argmin.default)
SORTS = (aten.sort.default, aten.sort.stable, aten.topk.default)


class Choices(TorchDispatchMode):
    """Keeps the smallest gap of all choices that run under it: topk, sort, argmax and argmin of scores."""

    def __init__(self) -> None:
        super().__init__()
        self.smallest_gap = float("inf")  # over the largest score of its choice

    @property
    def are_clear(self) -> bool:
        return self.smallest_gap >= CLEAR

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in FIRST or func in SORTS:
            names = [argument.name for argument in func._schema.arguments]
            values = given | dict(zip(names, args))
            scores = values["self"]
            if scores.is_floating_point() and scores.ndim:
                self.add(func, scores, values)
        return func(*args, **given)

    def add(self, func: Any, scores: torch.Tensor, values: dict[str, Any]) -> None:
        """Adds one choice. values: the arguments of func by name."""
        first = func in FIRST
        dim = values.get("dim", None if first else -1)
        if dim is None:
            scores, dim = scores.flatten(), -1
        chosen = 1 if first else values.get("k", scores.shape[dim])
        largest = values.get("largest", func is not aten.argmin.default)
        ordered = scores.detach().double().sort(dim=dim, descending=largest).values.movedim(dim, -1)[..., : chosen + 1]
        gaps = ordered.diff(dim=-1).abs()
        gaps, size = gaps[gaps.isfinite()], ordered[ordered.isfinite()].abs()
        if gaps.numel() and size.max() > 0:
            self.smallest_gap = min(self.smallest_gap, (gaps.min() / size.max()).item())
