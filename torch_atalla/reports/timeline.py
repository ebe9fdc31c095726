# SPDX-License-Identifier: BSD-3-Clause
"""The recorded work of a device: when each launch and copy ran, and on which units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_atalla import energy
from torch_atalla.device.work import DeviceWork, Work
from torch_atalla.driver.dtypes import DTYPES, name

from .program import Instruction

UNITS = ("sdma", "vector", "array")


@dataclass(frozen=True)
class Span:
    """One launch or copy. Cycles count from the start of the recording.

    stream: None for the far end of a copy between devices. alone: its cycles with nothing beside it. sdma, vector,
    array: first and past the last cycle of the unit's work for it, and the unit's busy cycles. instruction: its number
    in the program; None for work that belongs to no instruction. joules: with leakage in `alone` cycles. dtype, shape:
    of the first output; the shape of a copy is (rows, bytes of a row).
    """

    name: str
    kind: str
    dtype: str
    shape: list[int]
    stream: int | None
    start: int
    end: int
    alone: int
    sdma: tuple[int, int, int]
    vector: tuple[int, int, int]
    array: tuple[int, int, int]
    read: int
    written: int
    macs: int
    instruction: int | None
    joules: float = 0.0  # 0 for a device library without an energy model

    @property
    def bytes(self) -> int:
        """DRAM traffic."""
        return self.read + self.written


@dataclass(frozen=True)
class Timeline:
    """A device's work in order of submission. lost: records that were overwritten before they could be read."""

    device: str
    clock_hz: float
    cycles: int
    lost: int
    spans: list[Span]
    joules: float = 0.0
    peak_watts: float = 0.0  # of the launch or copy that takes the most


def make_timeline(device: DeviceWork, origin: int, instructions: Sequence[Instruction] = ()) -> Timeline:
    """Return a device's recorded work, with the program's instructions found in it.

    origin: the cycle at which the recording began. Instructions run in order, so each launch belongs to the next
    instruction with its kernel.
    """
    start = min((work.start_cycle for work in device.work), default=origin)
    spans, position = [], 0
    for work in device.work:
        found = None
        if work.kind == "launch":
            matches = (i for i in range(position, len(instructions)) if instructions[i].kernel == work.kernel)
            found = next(matches, None)
            position = position if found is None else found + 1
        spans.append(_span(work, start, found))
    cycles = max((span.end for span in spans), default=0)
    joules = energy.of([device]).joules
    peak = max((span.joules * device.clock_hz / max(span.alone, 1) for span in spans), default=0.0)
    return Timeline(f"atalla:{device.ordinal}", device.clock_hz, cycles, device.lost, spans, joules, peak)


def _span(work: Work, origin: int, instruction: int | None) -> Span:
    def unit(which: str) -> tuple[int, int, int]:
        begin, end = getattr(work, which)
        return begin - origin, end - origin, getattr(work, f"{which}_cycles")

    return Span(
        name=work.name,
        kind=work.kind,
        dtype=name(DTYPES[work.dtype]) if work.dtype in DTYPES else str(work.dtype),
        shape=list(work.shape),
        stream=work.stream,
        start=work.start_cycle - origin,
        end=work.end_cycle - origin,
        alone=work.cycles,
        sdma=unit("sdma"),
        vector=unit("vector"),
        array=unit("array"),
        read=work.dram_bytes_read,
        written=work.dram_bytes_written,
        macs=work.macs,
        instruction=instruction,
        joules=work.energy.joules,
    )
