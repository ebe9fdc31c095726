# SPDX-License-Identifier: BSD-3-Clause
"""Chrome traces of the chip's work, in simulated time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch_atalla.driver.dtypes import DTYPES, name

from .work import DeviceWork, Work

_UNITS = ("sdma", "vector", "array")
_UNIT_ROWS = {unit: 1_000_000 + i for i, unit in enumerate(_UNITS)}  # thread ids, beyond those of streams
_COUNTER_ROW = 0


def _dtype_name(code: int) -> str:
    return name(DTYPES[code]) if code in DTYPES else str(code)


def _arguments(work: Work) -> dict[str, Any]:
    elapsed = max(work.end_cycle - work.start_cycle, 1)
    arguments: dict[str, Any] = {
        "sequence": work.sequence,
        "start_cycle": work.start_cycle,
        "cycles": work.cycles,
        "bytes_read": work.dram_bytes_read,
        "bytes_written": work.dram_bytes_written,
    }
    if work.kind == "launch":
        arguments |= {"dtype": _dtype_name(work.dtype), "shape": list(work.shape), "macs": work.macs}
        arguments["scratchpad_bytes"] = work.scratchpad_bytes
    if work.energy.total:
        arguments["joules"] = work.energy.joules
    for unit in _UNITS:
        arguments[f"{unit}_utilisation"] = round(getattr(work, f"{unit}_cycles") / elapsed, 4)
    return arguments


def _name(pid: int, name: str, index: int, tid: int | None = None) -> Iterator[dict[str, Any]]:
    what = "process" if tid is None else "thread"
    base = {"ph": "M", "pid": pid, "tid": tid or 0}
    yield base | {"name": f"{what}_name", "args": {"name": name}}
    yield base | {"name": f"{what}_sort_index", "args": {"sort_index": index}}


def _counters(device: DeviceWork, at: Any) -> Iterator[dict[str, Any]]:
    """Work in flight and what it occupies of the scratchpads, and the running sums of DRAM traffic and MACs, at each
    start and end. Launches of several streams may together occupy more than there is (docs/concepts/timing.md)."""
    edges = sorted([(w.start_cycle, 1, w) for w in device.work] + [(w.end_cycle, -1, w) for w in device.work],
                   key=lambda edge: edge[:2])  # fmt: skip
    flying = occupied = read = written = macs = 0
    for i, (cycle, step, w) in enumerate(edges):
        flying, occupied = flying + step, occupied + step * w.scratchpad_bytes
        if step < 0:
            read, written, macs = read + w.dram_bytes_read, written + w.dram_bytes_written, macs + w.macs
        if i + 1 < len(edges) and edges[i + 1][0] == cycle:
            continue
        base = {"ph": "C", "pid": device.ordinal, "tid": _COUNTER_ROW, "ts": at(cycle)}
        yield base | {"name": "in flight", "args": {"launches and copies": flying}}
        yield base | {"name": "scratchpads", "args": {"bytes": occupied}}
        yield base | {"name": "DRAM bytes", "args": {"read": read, "written": written}}
        yield base | {"name": "MACs", "args": {"macs": macs}}


def _utilisation(device: DeviceWork, at: Any) -> Iterator[dict[str, Any]]:
    """The share of cycles in which each unit works, and the DRAM bytes per cycle, from change to change."""
    changes: dict[int, dict[str, float]] = {}
    for w in device.work:
        rates = {unit: (getattr(w, unit), getattr(w, f"{unit}_cycles")) for unit in _UNITS}
        rates["bytes"] = (w.sdma, w.dram_bytes_read + w.dram_bytes_written)
        for rate, ((begin, end), amount) in rates.items():
            for cycle, sign in ((begin, 1), (end, -1)) if end > begin else ():
                change = changes.setdefault(cycle, {})
                change[rate] = change.get(rate, 0.0) + sign * amount / (end - begin)
    now = dict.fromkeys((*_UNITS, "bytes"), 0.0)
    for cycle in sorted(changes):
        for rate, difference in changes[cycle].items():
            now[rate] += difference
        base = {"ph": "C", "pid": device.ordinal, "tid": _COUNTER_ROW, "ts": at(cycle)}
        shown = {rate: max(round(value, 4), 0.0) for rate, value in now.items()}
        for unit in _UNITS:
            yield base | {"name": f"{unit} utilisation", "args": {"busy": shown[unit]}}
        yield base | {"name": "DRAM bytes per cycle", "args": {"bytes": shown["bytes"]}}


def _power(device: DeviceWork, at: Any) -> Iterator[dict[str, Any]]:
    """The watts of launches and copies, spread over the cycles in which each ran."""
    changes: dict[int, float] = {}
    for w in device.work:
        if w.energy.total and w.end_cycle > w.start_cycle:
            watts = w.energy.watts(w.end_cycle - w.start_cycle, device.clock_hz)
            changes[w.start_cycle] = changes.get(w.start_cycle, 0.0) + watts
            changes[w.end_cycle] = changes.get(w.end_cycle, 0.0) - watts
    now = 0.0
    for cycle in sorted(changes):
        now += changes[cycle]
        base = {"ph": "C", "pid": device.ordinal, "tid": _COUNTER_ROW, "ts": at(cycle)}
        yield base | {"name": "power", "args": {"watts": max(round(now, 6), 0.0)}}


def events(devices: Iterable[DeviceWork], origin: int) -> Iterator[dict[str, Any]]:
    """The trace's events. A process is a device; its rows are its streams, and its units below them."""
    for device in devices:
        pid, mhz = device.ordinal, device.clock_hz / 1e6

        def at(cycle: int, mhz: float = mhz) -> float:
            return (cycle - origin) / mhz

        yield from _name(pid, f"atalla:{pid} (simulated time)", pid)
        for stream in sorted({w.stream for w in device.work if w.stream is not None}):
            yield from _name(pid, f"stream {stream}{' (default)' if stream == 0 else ''}", stream, stream)
        for unit, row in _UNIT_ROWS.items():
            yield from _name(pid, f"unit {unit}", row, row)
        for w in device.work:
            if w.stream is not None:
                span = {"ts": at(w.start_cycle), "dur": (w.end_cycle - w.start_cycle) / mhz}
                yield {"ph": "X", "cat": w.kind, "pid": pid, "tid": w.stream, "name": w.name, **span,
                       "args": _arguments(w)}  # fmt: skip
            for unit, row in _UNIT_ROWS.items():
                begin, end = getattr(w, unit)
                if end == begin:
                    continue
                served = {"busy_cycles": getattr(w, f"{unit}_cycles"), "stream": w.stream, "sequence": w.sequence}
                yield {"ph": "X", "cat": "unit", "pid": pid, "tid": row, "name": w.name, "ts": at(begin),
                       "dur": (end - begin) / mhz, "args": served}  # fmt: skip
        yield from _counters(device, at)
        yield from _utilisation(device, at)
        yield from _power(device, at)


def write(path: str | Path, devices: Sequence[DeviceWork], origin: int) -> None:
    lost = {f"atalla:{d.ordinal}": d.lost for d in devices if d.lost}
    trace = {"traceEvents": list(events(devices, origin)), "displayTimeUnit": "ns", "otherData": {"lost": lost}}
    Path(path).write_text(json.dumps(trace))
