# SPDX-License-Identifier: BSD-3-Clause
"""Dynamo's device interface. Imported when torch._dynamo.device_interface is imported (see __init__.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    caching_worker_device_properties,
    register_interface_for_device,
)

from torch_atalla.device import memory
from torch_atalla.device import namespace as atalla


class AtallaInterface(DeviceInterface):
    """Devices, streams, events and memory under the names that Dynamo and Inductor use for every accelerator."""

    device = atalla.device  # type: ignore[assignment]
    Event = atalla.Event  # type: ignore[assignment]
    Stream = atalla.Stream  # type: ignore[assignment]

    class Worker:
        """Interface for compile workers, which do not open the device: values that the main process recorded."""

        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices["atalla"] = device

        @staticmethod
        def current_device() -> int:
            recorded = caching_worker_current_devices.get("atalla")
            return atalla.current_device() if recorded is None else recorded

        @staticmethod
        def get_device_properties(device: torch.types.Device = None) -> Any:
            if "atalla" not in caching_worker_device_properties:
                every = [atalla.get_device_properties(i) for i in range(atalla.device_count())]
                caching_worker_device_properties["atalla"] = every
            index = AtallaInterface.Worker.current_device() if device is None else atalla._index(device)
            return caching_worker_device_properties["atalla"][index]

    current_device = staticmethod(atalla.current_device)
    set_device = staticmethod(atalla.set_device)  # type: ignore[assignment]
    device_count = staticmethod(atalla.device_count)
    is_available = staticmethod(atalla.is_available)
    stream = staticmethod(atalla.stream)  # type: ignore[assignment]
    current_stream = staticmethod(atalla.current_stream)  # type: ignore[assignment]
    set_stream = staticmethod(atalla.set_stream)  # type: ignore[assignment]
    synchronize = staticmethod(atalla.synchronize)  # type: ignore[assignment]
    get_device_properties = staticmethod(atalla.get_device_properties)  # type: ignore[assignment]
    memory_allocated = staticmethod(memory.memory_allocated)  # type: ignore[assignment]
    is_bf16_supported = staticmethod(atalla.is_bf16_supported)  # type: ignore[assignment]

    @staticmethod
    def exchange_device(device: int) -> int:
        """Make `device` the current device unless it is negative. Return the previous device."""
        previous = atalla.current_device()
        atalla.set_device(device)
        return previous

    maybe_exchange_device = exchange_device

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        atalla.set_stream(torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return atalla.current_stream(device_idx).stream_id

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        """Return the chip's name, because compiled code may depend on it."""
        return atalla.get_device_name(device)


def register() -> None:
    register_interface_for_device("atalla", AtallaInterface)
    for i in range(atalla.device_count()):
        register_interface_for_device(f"atalla:{i}", AtallaInterface)
