# SPDX-License-Identifier: BSD-3-Clause
"""Ops for which the order of equal elements is open, with that of their positions, as Atalla code has it."""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def _sort(x: torch.Tensor, dim: int = -1, descending: bool = False) -> Any:
    return aten.sort.stable(x, stable=True, dim=dim, descending=descending)


def _topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, *_: Any, **__: Any) -> Any:
    return tuple(part.narrow(dim, 0, k) if x.ndim else part for part in _sort(x, dim, largest))


def _kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return aten.kthvalue.default(x, k, dim, keepdim)
    parts = (part.narrow(dim, k - 1, 1) for part in _sort(x, dim))
    return tuple(part if keepdim else part.squeeze(dim) for part in parts)


def _mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    values, indices = aten.mode.default(x, dim, True)
    if x.ndim and x.numel():
        same = (x == values) | (x.isnan() & values.isnan())
        positions = torch.arange(x.shape[dim]).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
        last = torch.where(same, positions, -1).amax(dim, keepdim=True)
        indices = torch.where(values.isnan(), 0, last)
    return (values, indices) if keepdim or not x.ndim else (values.squeeze(dim), indices.squeeze(dim))


STABLE: dict[Any, Any] = {
    aten.sort.default: _sort,
    aten.topk.default: _topk,
    aten.kthvalue.default: _kthvalue,
    aten.mode.default: _mode,
}
