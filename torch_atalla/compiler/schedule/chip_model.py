# SPDX-License-Identifier: BSD-3-Clause
"""The chip that a schedule is for. The device library's timing model computes the cycles (csrc/sim/time/timing.cpp)."""

from __future__ import annotations

import ctypes
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from torch_atalla.driver import c_abi, runtime
from torch_atalla.driver.libraries import device_table
from torch_atalla.isa.geometry import LANES

from .work import GEOMETRY, Geometry, Work


class Cache(NamedTuple):
    """bytes: 0 if it holds everything."""

    bytes: int = 0
    line_bytes: int = 64
    ways: int = 1


@dataclass(frozen=True)
class ChipModel:
    """text: of the chip file. scratchpad_bytes: of each scratchpad. geometry: what the work of a launch depends on."""

    text: str
    cores: int
    scratchpads: int
    scratchpad_bytes: int
    geometry: Geometry
    own_scratchpads: bool = False  # of each core; otherwise all cores share them
    instruction_cache: Cache = Cache()

    @property
    def program_cores(self) -> int:
        """That can share a program of Atalla code."""
        return self.cores if self.own_scratchpads else 1

    @property
    def groups(self) -> int:
        """The groups of registers that instructions of the array may have (isa.yaml)."""
        sizes = dict(zip(GEOMETRY, self.geometry, strict=True))
        return (sizes["array_rows"] == 2 * LANES) | (sizes["array_columns"] == 2 * LANES) << 1

    @property
    def pad_bytes(self) -> int:
        """Of all scratchpads of a core."""
        return self.scratchpads * self.scratchpad_bytes

    def cycles(self, work: Work, resident: int = 0, cores: int = 1) -> int:
        """Of one launch with nothing beside it. resident: mask of the operands that lie in scratchpads."""
        api = device_table(c_abi.atalla_schedule_api, c_abi.ATALLA_SCHEDULE_ABI_MAJOR)
        assert api is not None, "a work without a device library"
        cycles = ctypes.c_uint64()
        if api.work_cycles(self.text.encode(), ctypes.byref(work.raw), resident, cores, ctypes.byref(cycles)) != 0:
            raise ValueError(runtime.device_error())
        return cycles.value

    @lru_cache(maxsize=64)  # noqa: B019, chips are few
    def tile_cycles(self, beside: int) -> float:
        """Of a tile that is loaded from DRAM, if `beside` tiles lie side by side. 0 without a device library."""
        api = device_table(c_abi.atalla_schedule_api, c_abi.ATALLA_SCHEDULE_ABI_MAJOR)
        if api is None:
            return 0.0
        sizes = dict(zip(GEOMETRY, self.geometry, strict=True))
        row = sizes["sdma_tile_columns"] * sizes["sdma_element_bytes"]
        count, tile = 1024, sizes["sdma_tile_rows"] * row
        raw = c_abi.atalla_launch_work(struct_size=ctypes.sizeof(c_abi.atalla_launch_work), tiles=count, parts=1)
        raw.bytes_read = raw.operand_bytes[0] = count * tile
        raw.beats = raw.bytes_read // sizes["bus_width_bytes"]
        raw.layout[0] = c_abi.atalla_tile_layout(pitch=beside * row, row_bytes=row, rows=sizes["sdma_tile_rows"])
        return self.cycles(Work(raw, 1, 0, raw.bytes_read, 0, 0, tuple(raw.operand_bytes), ())) / count


def chip_model(text: str) -> ChipModel:
    """From a chip's TOML text (`torch_atalla.chip.config_text()`)."""
    chip: dict[str, Any] = tomllib.loads(text)
    return ChipModel(
        text=text,
        cores=chip["core"]["count"]["value"],
        scratchpads=chip["scratchpad"]["count"]["value"],
        scratchpad_bytes=chip["scratchpad"]["bytes"]["value"],
        own_scratchpads=chip["core"]["scratchpads"]["value"] == "own",
        instruction_cache=Cache(*(chip["instruction_cache"][name]["value"] for name in Cache._fields)),
        geometry=tuple(chip[section][name]["value"] for section, name in GEOMETRY.values()),
    )
