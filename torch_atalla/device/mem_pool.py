# SPDX-License-Identifier: BSD-3-Clause
"""Private memory pools: `torch.atalla.MemPool`."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch_atalla.driver.extension import _C

from .index import device_index


def _drop(device: int, pool_id: tuple[int, int]) -> None:
    _C.release_pool(device, pool_id)
    _C.empty_cache(pool_id)


class MemPool:
    """Memory of the current device that only allocations inside `use_mem_pool` get.

    Tensors may outlive the pool; its memory is given back when the pool and they are gone.

    Args:
        allocator: None; there are no other allocators than the device's own (NotImplementedError).
        use_on_oom: lend free memory of the pool to an allocation outside that would be out of memory.
        no_split: give each allocation a segment of its own.
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False):
        if allocator is not None:
            raise NotImplementedError("atalla has no pluggable allocators: MemPool takes allocator=None only")
        self._device = device_index()
        self._id: tuple[int, int] = _C.new_pool_id()
        _C.create_pool(self._device, self._id, use_on_oom, no_split)
        self._finalizer = weakref.finalize(self, _drop, self._device, self._id)

    @property
    def id(self) -> tuple[int, int]:
        """(0, n), with an n that no other pool has."""
        return self._id

    def use_count(self) -> int:
        """Users of the pool: this object, `use_mem_pool` contexts, graphs that were captured into it."""
        return _C.pool_users(self._device, self._id)

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Segments of the pool, as `memory_snapshot` gives them."""
        from .memory_history import memory_snapshot

        return memory_snapshot(self._id, include_traces)


@contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Sends the calling thread's allocations on `device` (default: the current one) to `pool`.

    Not those of other threads, such as autograd's.
    """
    index = device_index(device)
    _C.begin_allocate_to_pool(index, pool.id)
    try:
        yield
    finally:
        _C.end_allocate_to_pool(index, pool.id)
        _C.release_pool(index, pool.id)
