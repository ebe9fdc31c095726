# SPDX-License-Identifier: BSD-3-Clause
"""Counters and traces of the simulated chip. All values are simulated, so they are the same on every machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .device.chrome_trace import write
from .device.energy import Energy, text
from .device.html_table import html_table
from .device.index import device_index
from .device.properties import get_device_properties
from .device.work import DeviceWork, Work, work_of
from .driver.extension import _C


@dataclass(frozen=True)
class Counters:
    """Totals of one device since it was opened or reset. Cycles are of the chip's clock, bytes are DRAM traffic."""

    launches: int
    copies: int
    cycles: int
    sdma_cycles: int  # cycles in which the unit had work; the three units overlap
    vector_cycles: int
    array_cycles: int
    dram_bytes_read: int
    dram_bytes_written: int
    host_bytes_to_device: int
    host_bytes_from_device: int
    macs: int
    assumed_cycles: int  # of `cycles`, those that the model or an assumption tells, not the launches' code (chip.clock)
    energy: Energy  # standby and leakage over the clock, also while no work ran

    @property
    def dram_bytes(self) -> int:
        """Bytes read from and written to DRAM."""
        return self.dram_bytes_read + self.dram_bytes_written

    def utilisation(self) -> dict[str, float]:
        """Return the fraction of busy cycles in which each unit had work, from 0 to 1."""
        busy = max(self.cycles, 1)
        return {"sdma": self.sdma_cycles / busy, "vector": self.vector_cycles / busy, "array": self.array_cycles / busy}

    def to_json(self) -> str:
        """Return the counters as one JSON object."""
        return json.dumps(asdict(self))

    def _repr_html_(self) -> str:
        shares = [(f"{unit} utilisation", f"{share:.1%}") for unit, share in self.utilisation().items()]
        plain = [(f.name, getattr(self, f.name)) for f in fields(self) if f.name != "energy"]
        return html_table([*plain, ("energy", text(self.energy.joules)), *shares], ("counter", "value"))


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `dtype` is the chip's dtype code, which is the number in c10::ScalarType."""

    sequence: int
    kernel: str
    dtype: int
    shape: tuple[int, ...]
    stream: int
    start_cycle: int
    cycles: int
    sdma_cycles: int
    vector_cycles: int
    array_cycles: int
    dram_bytes_read: int
    dram_bytes_written: int
    macs: int
    energy: Energy  # standby and leakage over `cycles`


def counters(device: Any = None) -> Counters:
    """Return the counters of a device (default: the current one)."""
    found = _C.counters(device_index(device))
    return Counters(**{**found, "energy": Energy(*found["energy"])})


def reset(device: Any = None) -> None:
    """Set the counters of a device (default: the current one) to 0. The clock goes on."""
    _C.reset_counters(device_index(device))


def launches(device: Any = None, since: int = 0, limit: int = 65536) -> list[Launch]:
    """Return the latest launches with sequence number >= `since`, oldest first. The device's buffer is bounded."""
    rows = _C.launch_records(device_index(device), since, limit)
    return [Launch(**{**row, "energy": Energy(*row["energy"])}) for row in rows]


def work(device: Any = None, since: int = 0) -> list[Work]:
    """Return the kept launches and copies with sequence number >= `since`, oldest first. The buffer is bounded."""
    return [work_of(row) for row in _C.work_records(device_index(device), since)]


def clock(device: Any = None) -> int:
    """Return the cycle of the device's simulated clock at which all work submitted so far ends."""
    return _C.clock(device_index(device))


class Recording:
    """Context manager that records all work of the devices, without a limit.

    Entering it waits for previously submitted work. After exit, `devices` has one DeviceWork per open device, and
    `origin` is the simulated clock at the start.

        with telemetry.Recording() as recording:
            model(x)
        print(sum(w.cycles for w in recording.devices[0].work))
    """

    origin: int = 0
    devices: tuple[DeviceWork, ...] = ()

    def __enter__(self) -> Recording:
        self._recording = _C.Recording()
        return self

    def __exit__(self, *exc: object) -> None:
        result = self._recording.stop()
        self.origin = result["origin"]
        self.devices = tuple(
            DeviceWork(d["ordinal"], d["clock_hz"], d["lost"], tuple(map(work_of, d["work"])))
            for d in result["devices"]
        )

    def save(self, path: str | Path) -> None:
        """Write a Chrome trace (Perfetto, chrome://tracing) in simulated microseconds since the start."""
        write(path, self.devices, self.origin)


def trace(path: str | Path, device: Any = None) -> None:
    """Write the kept launches and copies as a Chrome trace (Perfetto, chrome://tracing), in simulated microseconds.

    Without `device`, the trace has all devices in use. A device keeps only its latest work (`telemetry.records` in the
    chip configuration); `Recording` keeps all of it.
    """
    ordinals = [i for i in range(_C.device_count()) if _C.is_open(i)] if device is None else [device_index(device)]
    devices = [DeviceWork(i, get_device_properties(i).clock_hz, 0, tuple(work(i))) for i in ordinals]
    write(path, devices, 0)
