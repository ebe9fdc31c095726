# SPDX-License-Identifier: BSD-3-Clause
"""Averages over a device's latest work, under torch.cuda's names for samples of sensors. Time is simulated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch_atalla.driver.extension import _C

from .energy import Energy
from .index import device_index
from .properties import get_device_properties
from .work import Work, work_of

__all__ = ["memory_usage", "power_draw", "utilization"]

PERIOD = 1024  # launches and copies


def power_draw(device: Any = None) -> int:
    """Average power over the sample period, in mW.

    The sample period is that of the latest 1,024 launches and copies, from the start of the first to the end of the
    last in simulated time. Before any work, the result is the power of an idle chip. The energy model
    (docs/concepts/energy.md) gives the energy. 0 for a device library without an energy model.
    """
    clock_hz = get_device_properties(device).clock_hz
    ordinal = device_index(device)
    work = _sample(ordinal)
    begin, end = _period(work) if work else (0, round(clock_hz))
    parts = sum((w.energy for w in work), Energy())
    # Standby and leakage of a record are those of the work alone: the chip's are counted once for the period.
    active = parts.total - parts.standby - parts.leakage
    idle = Energy(*(_C.idle_energy(ordinal, end - begin) or ()))
    return round((active + idle.total) * clock_hz / (end - begin) * 1e-12)  # femtojoules to millijoules


def utilization(device: Any = None) -> int:
    """Percentage of the sample period (see `power_draw`) during which a launch ran. 0 before any work."""
    work = _sample(device_index(device))
    if not work:
        return 0
    begin, end = _period(work)
    return round(100 * _union((w.start_cycle, w.end_cycle) for w in work if w.kind == "launch") / (end - begin))


def memory_usage(device: Any = None) -> int:
    """Percentage of the sample period (see `power_draw`) during which DRAM was read or written. 0 before any work."""
    work = _sample(device_index(device))
    if not work:
        return 0
    begin, end = _period(work)
    return round(100 * min(1.0, sum(w.sdma_cycles for w in work) / (end - begin)))  # a cycle of SDMA serves one work


def _sample(ordinal: int) -> list[Work]:
    return [work_of(row) for row in _C.work_records(ordinal, 0, PERIOD)]


def _period(work: list[Work]) -> tuple[int, int]:
    begin, end = min(w.start_cycle for w in work), max(w.end_cycle for w in work)
    return begin, max(end, begin + 1)


def _union(spans: Iterable[tuple[int, int]]) -> int:
    """Cycles that are in at least one span."""
    covered = reached = 0
    for begin, end in sorted(spans):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered
