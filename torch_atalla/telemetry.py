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


def trace(path: str | Path, device: Any = None) -> None:
    """Writes the kept launches as a Chrome trace (chrome://tracing, Perfetto); times are simulated microseconds."""
    index = _index(device)
    mhz = get_device_properties(index).clock_hz / 1e6
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": index, "name": "process_name", "args": {"name": f"atalla:{index} (simulated time)"}}
    ]
    for r in launches(index):
        args = {k: v for k, v in asdict(r).items() if k not in ("kernel", "start_cycle", "stream")}
        events.append(
            {
                "ph": "X",
                "pid": index,
                "tid": r.stream,
                "name": r.kernel,
                "ts": r.start_cycle / mhz,
                "dur": r.cycles / mhz,
                "args": args,
            }  # fmt: skip
        )
    Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))
