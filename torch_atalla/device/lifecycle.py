# SPDX-License-Identifier: BSD-3-Clause
"""Whether there are devices, how many, whether one has been opened, and where the host waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_atalla.driver.extension import _C

__all__ = [
    "device_count", "get_sync_debug_mode", "init", "ipc_collect", "is_available", "is_initialized",
    "set_sync_debug_mode",
]  # fmt: skip

_MODES = {"default": 0, "warn": 1, "error": 2}


def is_available() -> bool:
    """True if there is at least one device. Opens none."""
    return device_count() > 0


def device_count() -> int:
    """Number of devices: ATALLA_DEVICE_COUNT, or the chip configuration's. Opens none."""
    return _C.device_count()


def init() -> None:
    """Refuses a forked child of a process that has used a device. A device is opened by its first use."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether a device has been opened."""
    return any(_C.is_open(i) for i in range(device_count())) and not _is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had opened a device."""
    return _C.in_bad_fork()


def _lazy_init() -> None:
    """Called by torch before the device's first use. Raises in a forked child of a process that has used it."""
    if _is_in_bad_fork():
        raise RuntimeError(_C.forked_error())
    _C.register_fork_handler()


def ipc_collect() -> None:
    """Frees the memory of tensors that were sent to other processes, are gone here, and have no receiver any more.

    This also happens whenever a tensor is sent, in `empty_cache`, and before an allocation fails.
    """
    _C.collect_shared()


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Calls at once: generators and choices of a device exist before the device is opened."""
    callable()


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Set how calls that make the host wait behave in this process: 0 "default", 1 "warn", 2 "error" (raise).

    Such calls are item() and whatever depends on values (nonzero, masks as indices), copies to the host
    that are not `non_blocking`, the fallback, and a stream's synchronize. Waiting that a program asks for by
    torch.atalla.synchronize or Event.synchronize stays silent.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _MODES[debug_mode]
    if debug_mode not in _MODES.values():
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    _C.set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2; see set_sync_debug_mode."""
    return _C.get_sync_debug_mode()
