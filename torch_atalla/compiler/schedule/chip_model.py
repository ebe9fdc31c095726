# SPDX-License-Identifier: BSD-3-Clause
"""The cycles of a launch, from its work and the parameters of the chip: docs/concepts/timing.md in Python.

`csrc/sim/time/timing.cpp` charges the same formulas, in the same integers; tests compare every launch of whole models.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any

from .work import GEOMETRY, Geometry, Work

_MOST = 1 << 48  # what the chip's clock takes for larger counts
_MILLI = 1000


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class ChipModel:
    """Parameters in cycles and bytes; beat in thousandths of a cycle."""

    cores: int
    core_start: int
    scratchpads: int
    vector_lanes: int
    array_rows: int
    array_columns: int
    scratchpad_bytes: int  # of each scratchpad
    sdma_tile_rows: int
    sdma_tile_columns: int
    sdma_element_bytes: int
    bus_width_bytes: int
    setup: int
    beat: int
    occupancy: int
    vector_latency: int
    exp_latency: int
    row: int
    weight: int
    array_latency: int
    overhead: int

    @property
    def geometry(self) -> Geometry:
        """What the work of a launch depends on."""
        return tuple(getattr(self, name) for name in GEOMETRY)

    @property
    def tile_bytes(self) -> int:
        """Of the largest tile of one SDMA transfer."""
        return self.sdma_tile_rows * self.sdma_tile_columns * self.sdma_element_bytes

    @property
    def pad_bytes(self) -> int:
        """Of all scratchpads."""
        return self.scratchpads * self.scratchpad_bytes

    def cycles(self, work: Work, resident: int = 0, cores: int = 1) -> int:
        """Of one launch with nothing beside it. resident: mask of the operands that lie in scratchpads."""
        n = max(1, min(cores, self.cores, work.parts))
        reads, writes = work.bytes_read, work.bytes_written
        for k, count in enumerate(work.operand_bytes):
            if resident >> k & 1:
                if work.written >> k & 1:
                    writes -= count
                else:
                    reads -= count
        reads, writes = min(reads, _MOST), min(writes, _MOST)
        if n > 1:
            again = (c for k, c in enumerate(work.operand_bytes) if (work.shared & ~resident) >> k & 1)
            for count in again:
                reads = min(reads + (n - 1) * min(count, _MOST), _MOST)
        read_tiles = _ceil(min(work.bytes_read, _MOST), self.tile_bytes)
        written_tiles = _ceil(min(work.bytes_written, _MOST), self.tile_bytes)
        every = read_tiles + written_tiles
        tiles = _ceil(reads, self.tile_bytes) + _ceil(writes, self.tile_bytes)
        counted = min(work.tiles, _MOST)
        steps = max(read_tiles, written_tiles)
        if counted and every:
            tiles = _ceil(counted * tiles, every)
            steps = counted * steps // every
        elif counted:
            tiles = counted if n == 1 and not resident else tiles
        busiest = _ceil(work.parts, n)

        def share(amount: int) -> int:
            return _ceil(min(amount, _MOST) * busiest, work.parts)

        beats = _ceil(reads, self.bus_width_bytes) + _ceil(writes, self.bus_width_bytes)
        if work.beats and every:
            beats = _ceil(
                min(work.beats, _MOST) * (_ceil(reads, self.tile_bytes) + _ceil(writes, self.tile_bytes)), every
            )
        bus = _ceil(beats * self.beat, _MILLI)
        sdma = max(bus, _ceil(tiles * self.setup + bus, n))
        vector = share(max(work.vector_ops, work.exp_ops)) * self.occupancy
        array = share(work.array_rows) * self.row + share(work.weight_rows) * self.weight
        latency = self.array_latency if array else 0
        if vector:
            latency += self.vector_latency + (self.exp_latency if work.exp_ops else 0)
        longest, steps = max(sdma, vector, array), share(steps)
        fill = sdma + vector + array - longest
        if steps > 1:
            fill = _ceil(sdma, steps) + _ceil(vector, steps) + _ceil(array, steps) - _ceil(longest, steps)
        return self.overhead + longest + fill + latency + (n - 1) * self.core_start


def chip_model(config: str | dict[str, Any], beat: int | None = None) -> ChipModel:
    """From a chip's TOML text (`torch_atalla.chip.config_text()`), or what it parses to.

    `beat`: thousandths of a cycle per bus beat, which a chip with a bank-level DRAM tells (default: sdma.beat_cycles).
    """
    chip = tomllib.loads(config) if isinstance(config, str) else config

    def value(section: str, name: str) -> Any:
        return chip[section][name]["value"]

    latencies = ("load_latency_cycles", "latency_cycles", "store_latency_cycles")
    return ChipModel(
        cores=value("core", "count"),
        core_start=value("core", "start_cycles"),
        scratchpads=value("scratchpad", "count"),
        **{name: value(*place) for name, place in GEOMETRY.items()},
        setup=value("sdma", "setup_cycles"),
        beat=int(value("sdma", "beat_cycles") * _MILLI + 0.5) if beat is None else beat,
        occupancy=value("vector", "occupancy_cycles"),
        vector_latency=sum(value("vector", name) for name in latencies),
        exp_latency=value("vector", "exp_latency_cycles"),
        row=value("array", "row_cycles"),
        weight=value("array", "weight_cycles"),
        array_latency=value("array", "latency_cycles"),
        overhead=value("launch", "overhead_cycles"),
    )
