# SPDX-License-Identifier: BSD-3-Clause
"""The chip that a schedule is for."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch_atalla.isa.geometry import LANES


class Cache(NamedTuple):
    """bytes: 0 if it holds everything."""

    bytes: int = 0
    line_bytes: int = 64
    ways: int = 1


@dataclass(frozen=True)
class ChipModel:
    """text: of the chip file. scratchpad_bytes: of each scratchpad."""

    text: str
    cores: int
    scratchpads: int
    scratchpad_bytes: int
    array_rows: int = LANES
    array_columns: int = LANES
    own_scratchpads: bool = False  # of each core; otherwise all cores share them
    instruction_cache: Cache = Cache()

    @property
    def program_cores(self) -> int:
        """That can share a program of Atalla code."""
        return self.cores if self.own_scratchpads else 1

    @property
    def groups(self) -> int:
        """The groups of registers that instructions of the array may have (isa.yaml)."""
        return (self.array_rows == 2 * LANES) | (self.array_columns == 2 * LANES) << 1

    @property
    def pad_bytes(self) -> int:
        """Of all scratchpads of a core."""
        return self.scratchpads * self.scratchpad_bytes


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
        array_rows=chip["array"]["rows"]["value"],
        array_columns=chip["array"]["columns"]["value"],
    )
