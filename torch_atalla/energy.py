# SPDX-License-Identifier: BSD-3-Clause
"""Energy and area of the simulated chip. docs/concepts/energy.md has the formulas and their sources.

    with telemetry.Recording() as recording:
        model(x)
    print(energy.of(recording))

The device library computes all amounts (csrc/sim/energy). They are integers, the same on every machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from .device.energy import Energy, text
from .device.index import device_index
from .device.work import DeviceWork
from .driver import c_abi, runtime
from .driver.extension import _C
from .driver.libraries import device_table

__all__ = ["Energy", "area", "area_of_chip", "idle", "of", "text", "total"]


def total(device: Any = None) -> Energy:
    """Return the energy of a device since it was opened or its counters were reset. Standby and leakage count over the
    device's clock, also while no work ran. Zeros for a device library without an energy model."""
    return Energy(*_C.counters(device_index(device))["energy"])


def idle(cycles: int, device: Any = None) -> Energy:
    """Return standby and leakage of a number of cycles. Zeros for a device library without an energy model."""
    return Energy(*(_C.idle_energy(device_index(device), cycles) or ()))


class Recorded(Protocol):
    """telemetry.Recording."""

    devices: tuple[DeviceWork, ...]


def of(recording: Recorded | Sequence[DeviceWork]) -> Energy:
    """Return the energy of recorded work, on all of its devices. Leakage and standby count from the first cycle to the
    last of each device, once where streams overlap."""
    found = Energy()
    for device in recording if isinstance(recording, Sequence) else recording.devices:
        if device.work:
            found = sum((replace(work.energy, standby=0, leakage=0) for work in device.work), found)
            first, last = min(w.start_cycle for w in device.work), max(w.end_cycle for w in device.work)
            found += idle(last - first, device.ordinal)
    return found


def area(device: Any = None) -> dict[str, float]:
    """Return the square millimetres of a device (default: the current one) by part. Raises RuntimeError for a device
    library that cannot tell."""
    return area_of_chip(_C.chip_config(device_index(device)))


def area_of_chip(config_text: str) -> dict[str, float]:
    """Return the square millimetres by part of the chip of a chip file, given by its text.

    Raises ValueError, with the line and the reason, for a file that a device would refuse, and RuntimeError for a
    device library that cannot tell.
    """
    api = device_table(c_abi.atalla_schedule_api, c_abi.ATALLA_SCHEDULE_ABI_MAJOR)
    if api is None:
        raise RuntimeError("the device library knows no areas; expected one with ATALLA_SCHEDULE_ABI 1.6 or later")
    found = c_abi.atalla_area(struct_size=ctypes.sizeof(c_abi.atalla_area))
    if api.area(config_text.encode(), ctypes.byref(found)) != c_abi.ATALLA_OK:
        raise ValueError(runtime.device_error())
    parts = {name: getattr(found, name) for name, *_ in found._fields_ if name not in ("struct_size", "reserved")}
    return {name.replace("_", " "): amount / 1e6 for name, amount in parts.items()}
