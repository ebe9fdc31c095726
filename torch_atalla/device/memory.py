# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the devices and pinned memory of the host: `torch.atalla.memory`, with torch.cuda.memory's names.

All sizes are bytes: of simulated DRAM, or (`host_*`) of the host's memory. `device` is an ordinal, a string, a
torch.device, or None for the current device. docs/concepts/memory.md describes the allocators.
"""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch_atalla.driver.extension import _C

from .index import device_index as _index
from .mem_pool import MemPool, use_mem_pool
from .memory_history import (  # noqa: F401  (torch.cuda.memory has the private ones, too)
    _allocation_traceback,
    _attach_out_of_memory_observer,
    _dump_snapshot,
    _get_memory_metadata,
    _record_memory_history,
    _save_memory_usage,
    _save_segment_usage,
    _set_memory_metadata,
    _snapshot,
    memory_snapshot,
)
from .memory_summary import table as _table

__all__ = [
    "MemPool", "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_disabled",
    "caching_allocator_enable", "empty_cache", "empty_host_cache", "get_allocator_backend",
    "get_per_process_memory_fraction", "host_memory_stats", "host_memory_stats_as_nested_dict", "list_gpu_processes",
    "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict",
    "memory_summary", "reset_accumulated_host_memory_stats", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats",
    "reset_peak_memory_stats", "set_per_process_memory_fraction", "use_mem_pool",
]  # fmt: skip

_fractions: dict[int, float] = {}


def _initialized() -> bool:
    return any(_C.is_open(i) for i in range(_C.device_count()))


def _flat(nested: dict[Any, Any]) -> OrderedDict[str, Any]:
    """{"a": {"b": 1}} as {"a.b": 1}, sorted; the parts of a tuple as key are joined by "_"."""
    flat: dict[str, Any] = {}

    def visit(prefix: str, value: Any) -> None:
        if not isinstance(value, dict):
            flat[prefix] = value
            return
        for key, inner in value.items():
            name = "_".join(map(str, key)) if isinstance(key, tuple) else str(key)
            visit(f"{prefix}.{name}" if prefix else name, inner)

    visit("", nested)
    return OrderedDict(sorted(flat.items()))


# ------------------------------------------------------------------------------------------------ statistics
def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats` before it is flattened; empty as long as no device was used."""
    return _C.memory_stats(_index(device)) if _initialized() else {}


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """The caching allocator's counters, with torch.cuda.memory_stats' keys and meaning.

    "<quantity>.<pool>.<metric>" with quantity in allocation, segment, active, inactive_split, allocated_bytes,
    reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes; pool in all, small_pool (requests up to
    1 MiB), large_pool; metric in current, peak, allocated, freed. Without pools: oversize_allocations,
    oversize_segments. Plain numbers: num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc,
    num_device_free, max_split_size (-1: none).
    "reserved_bytes_by_private_pools.<id>.<pool>.<metric>" for each `MemPool` and graph pool.
    """
    return _flat(memory_stats_as_nested_dict(device))


def memory_allocated(device: Any = None) -> int:
    """Bytes of blocks that tensors (and other users) hold now."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """The highest `memory_allocated` since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Bytes that the caching allocator holds of the device, in use or cached."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """The highest `memory_reserved` since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Sets every "peak" of `memory_stats` to its current value."""
    _C.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Sets every "allocated" and "freed" of `memory_stats`, and the plain counters, to 0."""
    _C.reset_accumulated_memory_stats(_index(device))


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"torch.atalla.{old} is torch.atalla.{new} under an older name", FutureWarning, stacklevel=3)


def memory_cached(device: Any = None) -> int:
    """Deprecated: `memory_reserved`."""
    _renamed("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Deprecated: `max_memory_reserved`."""
    _renamed("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Any = None) -> None:
    """Deprecated: `reset_peak_memory_stats`, which resets all peaks."""
    _renamed("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Deprecated: `reset_peak_memory_stats`, which resets all peaks."""
    _renamed("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """`memory_stats` as a table for people; `abbreviated` leaves out the rows of the two pools."""
    index = _index(device)
    _C.memory_stats(index)  # opens the device, if it was not
    return _table(index, memory_stats(index), abbreviated)


def list_gpu_processes(device: Any = None) -> str:
    """The processes that use the device, and their memory: this one, since a simulated device belongs to a process."""
    index = _index(device)
    used = memory_reserved(index)
    if used == 0:
        return f"atalla:{index}\nno processes are running"
    return f"atalla:{index}\nprocess {os.getpid():>10d} uses {used / 2**20:>12.3f} MB of device memory"


# ------------------------------------------------------------------------------------------------ the allocator itself
def empty_cache() -> None:
    """Gives all segments without a block in use back to the devices, after the work that is queued."""
    if _initialized():
        _C.collect_shared()
        _C.empty_cache((0, 0))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return (free, total) bytes of the device's DRAM. Memory that the allocator caches is not free."""
    return torch.accelerator.get_memory_info(_index(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits what the caching allocator may reserve to `fraction` (0 to 1) of the device's memory.

    An allocation beyond it raises OutOfMemoryError. Memory that is already reserved stays.
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = _index(device)
    _C.set_memory_fraction(index, fraction)
    _fractions[index] = fraction


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the value of `set_per_process_memory_fraction`; 1.0 at first."""
    return _fractions.get(_index(device), 1.0)


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Address of `size` bytes of the device for use without a tensor; `caching_allocator_delete` frees it.

    `stream` (a torch.Stream or its native handle; default: the device's current one) is whose work may use the memory
    without further synchronisation.
    """
    index = _index(device)
    if stream is None:
        stream = torch.accelerator.current_stream(f"atalla:{index}")
    if isinstance(stream, torch.Stream):
        return _C.raw_alloc(size, index, stream.stream_id)
    if not isinstance(stream, int):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.Stream` or `int` representing the native handle of a "
            "stream"
        )
    found = _C.find_stream(stream)
    if found is None or found[0] != index:
        raise ValueError(f"{stream:#x} is the handle of no stream of atalla:{index}")
    return _C.raw_alloc(size, index, found[1])


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees what `caching_allocator_alloc` gave."""
    _C.raw_delete(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Turns caching on or off, for all devices: without it each allocation takes a range of DRAM of its own, and each
    free waits for the device and gives it back."""
    _C.enable_caching(value)
    if not value:
        empty_cache()


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Context manager that turns caching off."""
    before = _C.caching_enabled()
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def get_allocator_backend() -> str:
    """ "native": the driver's caching allocator, the only one."""
    return "native"


def _set_allocator_settings(env: str) -> None:
    """Changes the settings, as the variable TORCH_ATALLA_ALLOC_CONF gives them; for later allocations."""
    torch._C._accelerator_setAllocatorSettings(env)


# ------------------------------------------------------------------------------------------------ the host
def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """`host_memory_stats` before it is flattened."""
    return _C.host_memory_stats()


def host_memory_stats() -> OrderedDict[str, Any]:
    """The pinned allocator's counters, with torch.cuda.host_memory_stats' keys.

    allocations and allocated_bytes: blocks taken from the system; active_requests and active_bytes: those in use;
    each with current, peak, allocated, freed. host_alloc_time and host_free_time (microseconds): total, max, min,
    count, avg. Sizes are rounded up to powers of two.
    """
    return _flat(host_memory_stats_as_nested_dict())


def reset_peak_host_memory_stats() -> None:
    """Sets every "peak" of `host_memory_stats` to its current value."""
    _C.reset_peak_host_memory_stats()


def reset_accumulated_host_memory_stats() -> None:
    """Sets every "allocated" and "freed" of `host_memory_stats`, and the plain counters, to 0."""
    _C.reset_accumulated_host_memory_stats()


def empty_host_cache() -> None:
    """Give unused pinned memory back to the system."""
    torch._C._accelerator_emptyHostCache()
