# SPDX-License-Identifier: BSD-3-Clause
"""Snapshots of the caching allocators and the history of their work, for torch.cuda._memory_viz and its web page."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

from torch.cuda import _memory_viz

from torch_atalla.driver.extension import _C


def memory_snapshot(mempool_id: tuple[int, int] | None = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The segments of all devices (or of one private pool) with their blocks, in the order of their addresses."""
    return _C.memory_snapshot(mempool_id or (0, 0), include_traces)["segments"]


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The state of all caching allocators, in the format of torch.cuda.memory._snapshot.

    "segments": address, total_size, allocated_size, active_size, requested_size (bytes), stream (id), segment_type,
    segment_pool_id, frames, and blocks with address, size, requested_size, state ("active_allocated",
    "active_pending_free", "inactive") and frames. "device_traces": for each device the recorded actions, oldest first,
    with addr (device_free for "oom"), size, stream, time_us (microseconds since 1970), pool_id and frames.

    `device` is ignored, as in CUDA. `augment_with_fx_traces` adds the FX nodes of frames in generated code.
    """
    snapshot: Any = _C.memory_snapshot((0, 0), True)
    if augment_with_fx_traces:
        from torch._utils import _augment_memory_snapshot_stack_traces

        snapshot = _augment_memory_snapshot_stack_traces(snapshot)
    return snapshot


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Pickles `_snapshot()` into a file, which pytorch.org/memory_viz draws."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)


def _record_memory_history(
    enabled: str | bool | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
) -> None:
    """Start or end recording the actions of the caching allocators of all devices.

    Args:
        enabled: "all" records actions; "state" only where the blocks in use were allocated; None ends it. (True and
            False are "all" and None.)
        context: actions whose stack is kept: None, "state" (blocks in use), "alloc" (allocations), "all" (frees too).
        stacks: "python", or "all" for C++ frames too.
        max_entries: of each device; the latest ones stay.
        device: ignored, as in CUDA.
        clear_history: forget what was recorded before.
        skip_actions: names of actions that are not recorded.

    Raises NotImplementedError for `compile_context` and `global_record_annotations`.
    """
    if compile_context or global_record_annotations:
        raise NotImplementedError("atalla's memory history has no compile contexts and no annotations")
    if isinstance(enabled, bool):
        enabled = "all" if enabled else None
    _C.record_memory_history(enabled, context, stacks, max_entries, clear_history, skip_actions or [])


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """Where the block that starts at `data_ptr` was allocated; None if that was not recorded."""
    return _C.allocation_traceback(data_ptr)


def _attach_out_of_memory_observer(observer: Callable[[int, int, int, int], None]) -> None:
    """Calls observer(device, requested, allocated, free), in bytes, before each torch.OutOfMemoryError is raised."""
    _C.attach_out_of_memory_observer(observer)


def _set_memory_metadata(metadata: str) -> None:
    """Text that later entries of the history carry as "user_metadata"; "" for none."""
    _C.set_memory_metadata(metadata)


def _get_memory_metadata() -> str:
    return _C.get_memory_metadata()


def _save_segment_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """A flame graph of the blocks by segment (upstream's script is downloaded for it at the first use)."""
    with open(filename, "w") as file:
        file.write(_memory_viz.segments(snapshot or _snapshot()))


def _save_memory_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """A flame graph of the blocks by the place that allocated them."""
    with open(filename, "w") as file:
        file.write(_memory_viz.memory(snapshot or _snapshot()))
