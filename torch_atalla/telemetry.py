# SPDX-License-Identifier: BSD-3-Clause
"""What the simulated chip did: cycles, bytes, MACs. Simulated quantities only: the same on every machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import _C
from .device import _index, get_device_properties


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
        return {
            "sdma": self.sdma_cycles / busy,
            "vector": self.vector_cycles / busy,
            "array": self.array_cycles / busy,
        }

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
    return Counters(**_C.counters(_index(device)))


def reset(device: Any = None) -> None:
    _C.reset_counters(_index(device))


def launches(device: Any = None, since: int = 0, limit: int = 65536) -> list[Launch]:
    """The latest launches with sequence number >= `since`, oldest first. The device keeps a bounded ring of them."""
    return [Launch(**row) for row in _C.launch_records(_index(device), since, limit)]


@dataclass(frozen=True)
class Work:
    """One launch or copy. Cycles of the device's clock; `dtype` is the chip's dtype code (c10::ScalarType's number).

    `kind` is "launch", "host_to_device", "device_to_host" or "device_to_device"; a copy has no kernel and the shape
    (rows, bytes of a row). `sdma`, `vector` and `array` are the first and past the last cycle in which the unit worked
    for it. `stream` is None for the far end of a copy between devices, whose stream is the other device's.
    """

    sequence: int
    kind: str
    kernel: str
    dtype: int
    shape: tuple[int, ...]
    stream: int | None
    start_cycle: int
    end_cycle: int
    cycles: int  # alone; end_cycle - start_cycle is more when streams competed for a unit
    sdma_cycles: int
    vector_cycles: int
    array_cycles: int
    sdma: tuple[int, int]
    vector: tuple[int, int]
    array: tuple[int, int]
    dram_bytes_read: int
    dram_bytes_written: int
    macs: int

    @property
    def name(self) -> str:
        """The kernel, or what kind of copy it is."""
        return self.kernel or COPY_NAMES[self.kind]


COPY_NAMES = {
    "host_to_device": "Memcpy HtoD",
    "device_to_host": "Memcpy DtoH",
    "device_to_device": "Memcpy DtoD",
}


@dataclass(frozen=True)
class DeviceWork:
    """The work of one device, in order of submission; `lost` records were overwritten before they could be read."""

    ordinal: int
    clock_hz: float
    lost: int
    work: tuple[Work, ...]


def work(device: Any = None, since: int = 0) -> list[Work]:
    """The kept launches and copies with sequence number >= `since`, oldest first. The device keeps a bounded ring."""
    return [Work(**row) for row in _C.work_records(_index(device), since)]


def clock(device: Any = None) -> int:
    """Cycle at which all work submitted so far ends, on the device's simulated clock."""
    return _C.clock(_index(device))


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
        from .trace import write

        write(path, self.devices, self.origin)


def trace(path: str | Path, device: Any = None) -> None:
    """Writes the kept launches and copies as a Chrome trace (Perfetto, chrome://tracing), in simulated microseconds.

    Of one device, or of all that are in use. A device keeps its latest work only (`telemetry.records` of the chip
    configuration); `Recording` keeps all.
    """
    from .trace import write

    ordinals = [i for i in range(_C.device_count()) if _C.is_open(i)] if device is None else [_index(device)]
    write(path, [DeviceWork(i, get_device_properties(i).clock_hz, 0, tuple(work(i))) for i in ordinals], 0)
