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
    """The end of the first of the longest runs of equal elements. (A NaN equals nothing: the CPU takes it for equal to
    its neighbours while it sorts, so that its result has no rule.)"""
    if not x.ndim or not x.numel():
        return aten.mode.default(x, dim, keepdim)
    values, order = _sort(x, dim)
    rank = torch.arange(x.shape[dim]).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
    begins = torch.where(values != values.roll(1, dim), rank, 0).cummax(dim).values  # of the run of each element
    end = (rank - begins).argmax(dim, keepdim=True)
    return tuple(y.gather(dim, end) if keepdim else y.gather(dim, end).squeeze(dim) for y in (values, order))


STABLE: dict[Any, Any] = {
    aten.sort.default: _sort,
    aten.argsort.default: lambda x, dim=-1, descending=False: _sort(x, dim, descending)[1],
    aten.topk.default: _topk,
    aten.kthvalue.default: _kthvalue,
    aten.mode.default: _mode,
}
