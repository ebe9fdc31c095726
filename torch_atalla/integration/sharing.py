# SPDX-License-Identifier: BSD-3-Clause
"""Sends atalla tensors to other processes: both sides use the same DRAM (docs/guides/interop.md).

torch.multiprocessing reduces a tensor to its storage and its metadata. Only the storage is the device's concern, so a
reducer for `torch.UntypedStorage` is all that is registered: tensors, parameters and typed storages come with it.
"""

from __future__ import annotations

import os
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from torch_atalla.driver.extension import _C

Reduced = tuple[Any, tuple[Any, ...]]


def _shell(storage: torch.UntypedStorage) -> torch.Tensor:
    """An empty tensor over the storage, which is how a storage crosses to C++."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage, 0, (0,), (1,))


def _rebuild_empty(ordinal: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(0, device=torch.device("atalla", ordinal))


def _rebuild(ordinal: int, reference: Any, file: tuple[int, int], offset: int, size: int) -> torch.UntypedStorage:
    try:
        fd = reference.detach()
    except (OSError, EOFError) as error:
        raise RuntimeError(
            "Cannot receive an atalla tensor: the process that sent it has ended. It must live until the tensor is "
            "received."
        ) from error
    if ordinal >= _C.device_count():
        os.close(fd)
        raise RuntimeError(
            f"Cannot receive a tensor of atalla device {ordinal}: torch.atalla.device_count() is {_C.device_count()} "
            "in this process."
        )
    key = (ordinal, file, offset, size)
    storage = reductions.storage_from_cache(torch.UntypedStorage, key)
    if storage is not None:
        os.close(fd)  # the storage holds a reference of its own
        return storage
    storage = _C.receive_storage(ordinal, fd, offset, size).untyped_storage()
    reductions.shared_cache[key] = reductions.StorageWeakRef(storage)
    return storage


def reduce_storage(storage: torch.UntypedStorage) -> Reduced:
    """The pickled form of a storage for another process of this machine."""
    if storage.device.type != "atalla":
        return reductions.reduce_storage(storage)
    ordinal = storage.device.index
    if storage.nbytes() == 0:
        return _rebuild_empty, (ordinal,)
    fd, file, offset, size = _C.share_storage(_shell(storage))
    try:
        # Not reduction.DupFd: for the arguments of a process that is being spawned, that one would keep the descriptor,
        # and so the reference, in this process.
        reference = resource_sharer.DupFd(fd)
    finally:
        os.close(fd)
    reductions.shared_cache[(ordinal, file, offset, size)] = reductions.StorageWeakRef(storage)
    return _rebuild, (ordinal, reference, file, offset, size)


def install() -> None:
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
