# SPDX-License-Identifier: BSD-3-Clause
"""The roofline: what the chip can do at most, and what each launch did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .timeline import Span


@dataclass(frozen=True)
class Limits:
    """The chip's limits per cycle, from its configuration.

    array: multiply-accumulates of all arrays. vector: lane operations of the vector unit. dram: bytes of the bus.
    overhead: cycles that each launch costs before its first transfer.
    """

    array: float
    vector: float
    dram: float
    overhead: int


@dataclass(frozen=True)
class Dot:
    """One launch. unit: "array" if it multiplies matrices, else "vector", or "" if it only moves data.

    operations: multiply-accumulates of the array, or lane operations of the vector unit. rate: operations per cycle.
    intensity: operations per byte of DRAM; None without DRAM traffic.
    """

    span: int
    unit: str
    operations: int
    rate: float
    intensity: float | None


def limits(chip: dict[str, Any]) -> Limits:
    """Return the limits of a chip, given its configuration (torch_atalla.chip.config)."""

    def value(section: str, name: str) -> float:
        return chip[section][name]["value"]

    return Limits(
        array=value("array", "rows")
        * value("array", "columns")
        / value("array", "row_cycles")
        * value("core", "count"),
        vector=value("vector", "lanes") / value("vector", "occupancy_cycles") * value("core", "count"),
        dram=value("bus", "width_bytes") / value("sdma", "beat_cycles"),
        overhead=int(value("launch", "overhead_cycles")),
    )


def dots(spans: Sequence[Span], limit: Limits) -> list[Dot]:
    """Return one dot per launch; `span` is its number in the timeline."""
    found = []
    for i, span in enumerate(spans):
        if span.kind != "launch":
            continue
        unit = "array" if span.macs else "vector" if span.vector[2] else ""
        operations = span.macs or round(span.vector[2] * limit.vector)
        intensity = operations / span.bytes if span.bytes else None
        found.append(Dot(i, unit, operations, operations / max(span.alone, 1), intensity))
    return found
