# SPDX-License-Identifier: BSD-3-Clause
"""The current device of the calling thread."""

from __future__ import annotations

from typing import Any

from torch_atalla.driver.extension import _C

from .index import device_index
from .lifecycle import device_count

__all__ = ["can_device_access_peer", "current_device", "device", "device_of", "set_device"]


def current_device() -> int:
    """Ordinal of the calling thread's current device; 0 in a new thread."""
    return _C.current_device()


def set_device(device: Any) -> None:
    """Makes the device the calling thread's current one. A negative ordinal does nothing."""
    index = device_index(device)
    if index >= 0:
        _C.set_device(index)


def _exchange_device(index: int) -> int:
    """Makes the device current and gives the previous one; -1, and nothing happens, for a negative ordinal."""
    if index < 0:
        return -1
    previous = current_device()
    if index != previous:
        _C.set_device(index)
    return previous


_maybe_exchange_device = _exchange_device  # no device is opened by being current, so that there is nothing to avoid


class _DeviceGuard:
    """Selects a device by ordinal while torch's generated code works on it."""

    def __init__(self, index: int):
        self.idx = index
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exc: object) -> None:
        self.idx = _maybe_exchange_device(self.prev_idx)


class device(_DeviceGuard):  # noqa: N801  (torch.cuda's name)
    """Context manager that changes the current device. A negative ordinal does nothing."""

    def __init__(self, device: Any):
        super().__init__(device_index(device))


class device_of(device):  # noqa: N801
    """Context manager that makes the device of a tensor or storage current; does nothing for those elsewhere."""

    def __init__(self, obj: Any):
        super().__init__(obj.get_device() if obj.device.type == "atalla" else -1)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether copies run between the two devices without the host: between any two of a process.

    Raises AssertionError for ordinals that do not exist.
    """
    index, peer = device_index(device), device_index(peer_device)
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    if not 0 <= peer < device_count():
        raise AssertionError("Invalid peer device id")
    return index != peer  # atalla.h: ATALLA_COPY_DEVICE_TO_DEVICE, "also between two devices of one process"
