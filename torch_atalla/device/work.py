# SPDX-License-Identifier: BSD-3-Clause
"""Records of the launches and copies that devices made, in simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .energy import Energy


@dataclass(frozen=True)
class Work:
    """One launch or copy. Cycles of the device's clock; `dtype` is the chip's dtype code (c10::ScalarType's number).

    `kind` is "launch" or a key of COPY_NAMES; a copy has no kernel and the shape (rows, bytes of a row). `sdma`,
    `vector` and `array` give the first cycle in which the unit worked for it, and the cycle after the last. `stream` is
    None for the far end of a copy between devices, whose stream is the other device's. `scratchpad_bytes` is what the
    launch occupies of the scratchpads: operands that are kept there, blocks of other operands, and tiles under way
    (docs/concepts/timing.md); of an Atalla program, the most pages that it had. Standby and leakage of `energy` count
    over `cycles`, as if the work ran alone.
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
    scratchpad_bytes: int
    energy: Energy

    @property
    def name(self) -> str:
        """The kernel, or what kind of copy it is."""
        return self.kernel or COPY_NAMES[self.kind]


def work_of(row: Mapping[str, Any]) -> Work:
    """From a record of the extension."""
    return Work(**{**row, "energy": Energy(*row["energy"])})


COPY_NAMES = {
    **{"host_to_device": "Memcpy HtoD", "device_to_host": "Memcpy DtoH", "device_to_device": "Memcpy DtoD"},
    **{"link_send": "Link send", "link_receive": "Link receive", "link_exchange": "Link exchange"},
}


@dataclass(frozen=True)
class DeviceWork:
    """The work of one device, in order of submission; `lost` records were overwritten before they could be read."""

    ordinal: int
    clock_hz: float
    lost: int
    work: tuple[Work, ...]
