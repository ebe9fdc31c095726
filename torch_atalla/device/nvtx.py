# SPDX-License-Identifier: BSD-3-Clause
"""torch.atalla.nvtx: named ranges, as torch.cuda.nvtx. They are spans of torch.profiler's traces.

NVIDIA's tool is not there to receive them; with no profiler running they cost little and leave nothing behind.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.ranges: list[record_function] = []


_stack = _Stack()
_handles = itertools.count(1)
_started: dict[int, Any] = {}


def range_push(msg: str) -> int:
    """Starts a range in the calling thread, inside those that it has open; gives its depth, from 0."""
    opened = record_function(msg)
    opened.__enter__()
    _stack.ranges.append(opened)
    return len(_stack.ranges) - 1


def range_pop() -> int:
    """Ends the calling thread's innermost range; gives its depth, or -1 where none is open."""
    if not _stack.ranges:
        return -1
    _stack.ranges.pop().__exit__(None, None, None)
    return len(_stack.ranges)


def range_start(msg: str) -> int:
    """Starts a range that any thread may end by the handle returned; such ranges need not nest."""
    handle = next(_handles)
    _started[handle] = torch.ops.profiler._record_function_enter_new(msg, None)
    return handle


def range_end(range_id: int) -> None:
    """Ends the range of a handle; one that is unknown, or ended already, does nothing."""
    record = _started.pop(range_id, None)
    if record is not None:
        torch.ops.profiler._record_function_exit._RecordFunction(record)


def mark(msg: str) -> None:
    """A range of no length."""
    with record_function(msg):
        pass


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001
    """Context manager and decorator: a range around its body. Arguments are those of msg.format."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
