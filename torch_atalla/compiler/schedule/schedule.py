# SPDX-License-Identifier: BSD-3-Clause
"""The result of scheduling: places in scratchpads, and cores."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import most_live


@dataclass(frozen=True)
class Resident:
    """A piece of the arena that stands in a scratchpad. Its place in DRAM stays, for a chip without room."""

    buffers: tuple[int, ...]  # as those of the plan's slot
    pad: int
    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Schedule:
    residents: tuple[Resident, ...] = ()
    cores: tuple[int, ...] = ()  # of each instruction; 1 for host calls

    def page_bytes(self) -> int:
        """Of the pages that the residents need, of all scratchpads."""
        pads: dict[int, int] = {}
        for item in self.residents:
            pads[item.pad] = max(pads.get(item.pad, 0), item.offset + item.nbytes)
        return sum(pads.values())

    def peak_bytes(self) -> int:
        """Of the scratchpads: the most that residents have at one instruction."""
        return most_live((item.nbytes, item.first, item.last) for item in self.residents)

    def __str__(self) -> str:
        lines = [f"schedule: {len(self.residents)} residents, at most {self.peak_bytes()} bytes of scratchpads"]
        lines += [
            f"  sp{item.pad} {item.offset:>8} +{item.nbytes:<8} [{item.first}, {item.last}]  "
            + " = ".join(f"t{buffer}" for buffer in item.buffers)
            for item in self.residents
        ]
        lines += [f"  {i:4d}  {cores} cores" for i, cores in enumerate(self.cores) if cores > 1]
        return "\n".join(lines)
