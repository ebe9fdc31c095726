# SPDX-License-Identifier: BSD-3-Clause
"""Control and statistics of the CPU fallback, which runs ops that are not native.

The mode applies to the whole process. TORCH_ATALLA_FALLBACK=silent|warn|error sets it at import (default: warn).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

from .driver.extension import _C

Mode = Literal["silent", "warn", "error"]
_MODES: tuple[Mode, ...] = ("silent", "warn", "error")


@dataclass(frozen=True)
class Count:
    """Calls of one op that fell back to the CPU, with one combination of dtypes."""

    op: str  # "aten::lgamma.out"
    dtypes: str  # of the tensor arguments, in order
    count: int


class _ModeGuard:
    """Context manager returned by `mode`. It restores the previous mode on exit."""

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
    """Set the fallback mode, or return the current one if called without an argument.

    The new mode applies immediately. `with mode("error"):` restores the previous mode at the end.

    - "silent": run the op on the CPU and count the call.
    - "warn": also warn, once per op and combination of dtypes.
    - "error": raise NotImplementedError, which names the op's overload and the dtypes.
    """
    current = _C.fallback_mode()
    if new is None:
        return _MODES[current]
    if new not in _MODES:
        raise ValueError(f"fallback.mode: expected one of {', '.join(map(repr, _MODES))}, got {new!r}")
    _C.set_fallback_mode(_MODES.index(new))
    return _ModeGuard(current)


def stats() -> list[Count]:
    """Return the fallback calls since the start or the last `reset`, most frequent first."""
    return sorted((Count(*row) for row in _C.fallback_stats()), key=lambda c: (-c.count, c.op, c.dtypes))


def total() -> int:
    """Return the number of fallback calls since the start or the last `reset`."""
    return sum(c.count for c in stats())


def reset() -> None:
    """Forget all counted fallback calls."""
    _C.reset_fallback_stats()
