# SPDX-License-Identifier: BSD-3-Clause
"""Ops that are not native run on the CPU. This module tells which, and forbids it on request.

The mode is one for the process; TORCH_ATALLA_FALLBACK=silent|warn|error sets it at import (default: warn).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

from .driver.extension import _C

Mode = Literal["silent", "warn", "error"]
_MODES: tuple[Mode, ...] = ("silent", "warn", "error")


@dataclass(frozen=True)
class Count:
    op: str  # "aten::lgamma.out"
    dtypes: str  # of the tensor arguments, in order
    count: int


class _ModeGuard:
    """Returned by `mode`: as a context manager it restores the mode that was set before."""

    def __init__(self, previous: int):
        self._previous = previous

    def __enter__(self) -> _ModeGuard:
        return self

    def __exit__(self, *exc: object) -> None:
        _C.set_fallback_mode(self._previous)


@overload
def mode(new: None = None) -> Mode: ...
@overload
def mode(new: Mode) -> _ModeGuard: ...
def mode(new: Mode | None = None) -> _ModeGuard | Mode:
    """Sets the mode, at once; `with mode("error"):` restores it at the end. Without an argument: the current mode.

    - "silent": run on the CPU and count.
    - "warn": also warn, once for each op and dtypes.
    - "error": raise NotImplementedError that names the op's overload and the dtypes.
    """
    current = _C.fallback_mode()
    if new is None:
        return _MODES[current]
    if new not in _MODES:
        raise ValueError(f"fallback.mode: expected one of {', '.join(map(repr, _MODES))}, got {new!r}")
    _C.set_fallback_mode(_MODES.index(new))
    return _ModeGuard(current)


def stats() -> list[Count]:
    """Fallback calls since the start or the last `reset`, most frequent first."""
    return sorted((Count(*row) for row in _C.fallback_stats()), key=lambda c: (-c.count, c.op, c.dtypes))


def total() -> int:
    return sum(c.count for c in stats())


def reset() -> None:
    _C.reset_fallback_stats()
