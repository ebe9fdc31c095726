# SPDX-License-Identifier: BSD-3-Clause
"""Streams and events, with torch.cuda's names, over torch.Stream and torch.Event."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from torch_atalla.driver.extension import _C

from .devices import current_device
from .index import device_index
from .lifecycle import _lazy_init

__all__ = [
    "Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream",
    "get_stream_from_external", "set_stream", "stream", "synchronize",
]  # fmt: skip

_DEVICE_TYPE = 20  # c10::DeviceType::PrivateUse1


class Stream(torch.Stream):
    """In-order queue of work of one device. Work of different streams may overlap.

    `priority`: negative is urgent, everything else normal; it is brought into `priority_range()`.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any):
        if "stream_ptr" in kwargs:
            index, stream_id = _find(kwargs.pop("stream_ptr"))
            kwargs.update(stream_id=stream_id, device_index=index, device_type=_DEVICE_TYPE)
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        index = device_index(device)
        index = index if index >= 0 else device_index()
        least, greatest = cls.priority_range()
        return super().__new__(cls, device=torch.device("atalla", index), priority=max(greatest, min(least, priority)))

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(least urgent, most urgent)."""
        return 0, -1

    @property
    def priority(self) -> int:
        """Priority of the stream, within `priority_range()`."""
        return _C.stream_priority(self.device_index, self.stream_id)

    @property
    def atalla_stream(self) -> int:
        """The device library's handle (atalla_stream of csrc/sim/abi/atalla.h)."""
        return self.native_handle  # type: ignore[attr-defined]

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.atalla_stream)

    def wait_event(self, event: torch.Event) -> None:
        """Work submitted to the stream from now on waits for the event. Returns at once."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Make later work of this stream wait for the work that `stream` has now. Returns at once."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records the event, or a new one, and returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.atalla.Stream device={self.device} atalla_stream={self.atalla_stream:#x}>"


class ExternalStream(Stream):
    """A stream that other code of the process has by its handle (`Stream.atalla_stream`).

    Streams live until the process ends. RuntimeError for a handle that is no stream of an open device.
    """

    def __new__(cls, stream_ptr: int, device: Any = None, **kwargs: Any):
        stream = super().__new__(cls, stream_ptr=stream_ptr)
        index = device_index(device) if device is not None else -1
        if index >= 0 and index != stream.device_index:
            raise RuntimeError(f"Expected a stream of atalla:{index}, but {stream_ptr:#x} is one of {stream.device}")
        return stream


class _EventType(type(torch.Event)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "atalla"


class Event(torch.Event, metaclass=_EventType):
    """Point in a stream's work; `elapsed_time` is simulated milliseconds.

    Makes plain torch.Event objects: torch takes no object of a derived class where it expects another event.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ):
        if interprocess:
            raise NotImplementedError("atalla events cannot be shared between processes")
        return torch.Event(device="atalla", enable_timing=enable_timing, blocking=blocking)

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """Raises NotImplementedError: events cannot be shared between processes."""
        raise NotImplementedError("atalla events cannot be shared between processes")


def _find(handle: int) -> tuple[int, int]:
    """Device and id of the stream with the handle."""
    found = _C.find_stream(handle)
    if found is None:
        raise RuntimeError(f"{handle:#x} is not a stream of an atalla device of this process")
    return found


def _typed(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: Any = None) -> Stream:
    """The calling thread's current stream of the device."""
    return _typed(torch.accelerator.current_stream(device_index(device)))


def default_stream(device: Any = None) -> Stream:
    """The default stream of a device (default: the current one)."""
    return Stream(stream_id=0, device_index=device_index(device), device_type=_DEVICE_TYPE)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """The stream whose handle (`Stream.atalla_stream`) is `data_ptr`."""
    return ExternalStream(data_ptr, device)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes the stream, and its device, current in the calling thread. None does nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager that makes a stream, and its device, current. None does nothing."""

    cur_stream: torch.Stream | None = None  # torch.cuda's class declares it

    def __init__(self, stream: torch.Stream | None):
        self.stream = stream
        self.src_prev_stream: Stream | None = None
        self.dst_prev_stream: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self.src_prev_stream = current_stream()
        if self.src_prev_stream.device != self.stream.device:
            self.dst_prev_stream = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        if self.stream is None:
            return
        if self.dst_prev_stream is not None:
            set_stream(self.dst_prev_stream)
        set_stream(self.src_prev_stream)


def stream(stream: torch.Stream | None) -> torch.Stream | StreamContext:
    """Context manager that makes `stream`, and its device, current. None does nothing."""
    # A torch.Stream is such a context itself, and one that Dynamo traces.
    return StreamContext(None) if stream is None else stream


def host_call(stream: torch.Stream, function: Callable[[], object]) -> None:
    """Calls `function()` on the stream's worker thread, after the stream's earlier work and before its later work.

    Returns at once (with `ATALLA_LAUNCH=inline`: after the call). The function must neither use the device nor wait for
    it. An exception is a fault of the stream: its text comes with the RuntimeError of the next synchronisation. The
    counterpart of cudaLaunchHostFunc.

    Raises ValueError for a stream of another device type.
    """
    if stream.device.type != "atalla":
        raise ValueError(f"Expected a stream of an atalla device, but got one of: {stream.device}")
    _C.host_call(stream.device.index, stream.stream_id, function)


def synchronize(device: Any = None) -> None:
    """Waits for all work of the device; raises the fault of a launch that failed."""
    _lazy_init()
    index = device_index(device)
    torch.accelerator.synchronize(index if index >= 0 else current_device())
