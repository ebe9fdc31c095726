# SPDX-License-Identifier: BSD-3-Clause
"""What the simulated chip did: cycles, bytes, MACs. Simulated quantities only: the same on every machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .device.chrome_trace import write
from .device.index import device_index
from .device.properties import get_device_properties
from .device.work import DeviceWork, Work
from .driver.extension import _C


@dataclass(frozen=True)
class Counters:
    """Totals of one device since it was opened or reset. Cycles of the chip's clock; bytes of DRAM traffic."""

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

    @property
    def dram_bytes(self) -> int:
        return self.dram_bytes_read + self.dram_bytes_written

    def utilisation(self) -> dict[str, float]:
        """Share of the busy cycles in which each unit had work, 0 to 1."""
        busy = max(self.cycles, 1)
        return {"sdma": self.sdma_cycles / busy, "vector": self.vector_cycles / busy, "array": self.array_cycles / busy}

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `dtype` is the chip's dtype code (c10::ScalarType's number)."""

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


def counters(device: Any = None) -> Counters:
    return Counters(**_C.counters(device_index(device)))


def reset(device: Any = None) -> None:
    _C.reset_counters(device_index(device))


def launches(device: Any = None, since: int = 0, limit: int = 65536) -> list[Launch]:
    """The latest launches with sequence number >= `since`, oldest first. The device keeps a bounded ring of them."""
    return [Launch(**row) for row in _C.launch_records(device_index(device), since, limit)]


def work(device: Any = None, since: int = 0) -> list[Work]:
    """The kept launches and copies with sequence number >= `since`, oldest first. The device keeps a bounded ring."""
    return [Work(**row) for row in _C.work_records(device_index(device), since)]


def clock(device: Any = None) -> int:
    """Cycle at which all work submitted so far ends, on the device's simulated clock."""
    return _C.clock(device_index(device))


class Recording:
    """Everything that the devices do inside of the `with`, however much it is.

    Starting waits for the work submitted before. Afterwards `devices` has a DeviceWork of each open device, and
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
            DeviceWork(d["ordinal"], d["clock_hz"], d["lost"], tuple(Work(**row) for row in d["work"]))
            for d in result["devices"]
        )

    def save(self, path: str | Path) -> None:
        """Writes a Chrome trace (Perfetto, chrome://tracing) in simulated microseconds since the start."""
        write(path, self.devices, self.origin)


def trace(path: str | Path, device: Any = None) -> None:
    """Writes the kept launches and copies as a Chrome trace (Perfetto, chrome://tracing), in simulated microseconds.

    Of one device, or of all that are in use. A device keeps its latest work only (`telemetry.records` of the chip
    configuration); `Recording` keeps all.
    """
    ordinals = [i for i in range(_C.device_count()) if _C.is_open(i)] if device is None else [device_index(device)]
    write(path, [DeviceWork(i, get_device_properties(i).clock_hz, 0, tuple(work(i))) for i in ordinals], 0)
