# SPDX-License-Identifier: BSD-3-Clause
"""`torch.atalla`: the device module, with torch.cuda's names wherever the concept exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from . import random
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from .random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "default_stream", "device", "device_count", "device_of",
    "empty_cache", "get_amp_supported_dtype", "get_device_capability", "get_device_name", "get_device_properties",
    "get_rng_state", "get_rng_state_all", "init", "initial_seed", "is_available", "is_bf16_supported",
    "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_stats", "random", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "set_stream",
    "stream", "synchronize",
]  # fmt: skip


def _C() -> Any:
    from . import _C as extension

    return extension


def _index(device: Any = None, optional: bool = True) -> int:
    """Ordinal of `None` (the current device), an int, "atalla:1" or a torch.device."""
    if isinstance(device, int):
        return device
    if device is None:
        if not optional:
            raise ValueError("Expected a torch.device with a specified index or an integer, but got: None")
        return current_device()
    given = torch.device(device)
    if given.type != "atalla":
        raise ValueError(f"Expected an atalla device, but got: {device}")
    return current_device() if given.index is None else given.index


class _utils:
    """What torch asks of a device module under this name."""

    @staticmethod
    def _get_device_index(device: Any = None, optional: bool = True, allow_cpu: bool = False) -> int:
        if allow_cpu and device is not None and not isinstance(device, int) and torch.device(device).type == "cpu":
            return -1
        return _index(device, optional)


# ------------------------------------------------------------------------------------------------ life cycle
def is_available() -> bool:
    """True if there is at least one device. Opens none."""
    return device_count() > 0


def device_count() -> int:
    return _C().device_count()


def init() -> None:
    """Nothing to do: a device is opened by its first use."""


def is_initialized() -> bool:
    """Whether device 0 has been opened."""
    return _C().is_open(0)


def _is_in_bad_fork() -> bool:
    return False


def _lazy_init() -> None:
    init()


# ------------------------------------------------------------------------------------------------ devices
def current_device() -> int:
    return _C().current_device()


def set_device(device: Any) -> None:
    index = _index(device)
    if index >= 0:
        _C().set_device(index)


class device:  # noqa: N801  (torch.cuda's name)
    """Context manager that changes the current device. A negative index does nothing."""

    def __init__(self, device: Any):
        self.idx = _index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(self, *exc: object) -> None:
        set_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Context manager that makes the tensor's device the current one; does nothing for tensors elsewhere."""

    def __init__(self, obj: Any):
        super().__init__(obj.get_device() if obj.device.type == "atalla" else -1)


@dataclass(frozen=True)
class DeviceProperties:
    """Sizes in bytes, clock in Hz. The numbers are those of the chip configuration."""

    name: str
    ordinal: int
    total_memory: int
    dram_alignment: int
    scratchpads: int
    scratchpad_bytes: int
    vector_lanes: int
    array_rows: int
    array_columns: int
    clock_hz: float
    bus_bytes_per_cycle: float


def get_device_properties(device: Any = None) -> DeviceProperties:
    return DeviceProperties(**_C().properties(_index(device)))


def get_device_name(device: Any = None) -> str:
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> dict[str, Any]:
    return torch.accelerator.get_device_capability(f"atalla:{_index(device)}")


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


# ------------------------------------------------------------------------------------------------ streams and events
class Stream(torch.Stream):
    """In-order queue of work of one device (torch.Stream on atalla)."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any):
        if not kwargs:
            kwargs = {"device": torch.device("atalla", _index(device)), "priority": priority}
        return super().__new__(cls, **kwargs)


class Event(torch.Event):
    """Point in a stream's work; `elapsed_time` is simulated milliseconds."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        if interprocess:
            raise NotImplementedError("atalla events cannot be shared between processes")
        return super().__new__(cls, device="atalla", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(f"atalla:{_index(device)}")


def default_stream(device: Any = None) -> torch.Stream:
    like = current_stream(device)
    return torch.Stream(stream_id=0, device_index=like.device_index, device_type=like.device_type)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream) -> torch.Stream:
    """Context manager that makes `stream` current; torch.Stream is one itself."""
    return stream


def synchronize(device: Any = None) -> None:
    """Waits for all work of the device; raises the fault of a launch that failed."""
    torch.accelerator.synchronize(_index(device))
