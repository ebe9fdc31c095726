# SPDX-License-Identifier: BSD-3-Clause
"""Where the cycles of a program of calls go: by call, by unit, and by the reason for which the issue waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from torch_atalla.device.energy import text

from .engine import Machine, Stats

DRIVER = "(driver: before the first call)"
WHOLE = "(the whole program)"  # without calls
DRAIN = "(transfers after the last packet)"
ISSUE = "packets issued"
# Stall of Stats -> its text. Every other stall waits for a result of the unit that it names.
_REASONS = {
    "overwrite": "WAW: a destination is still being written",
    "unit busy": "unit busy",
    "scratchpad rows": "scratchpad rows in transfer",
    "DRAM bytes": "DRAM bytes in transfer",
    "SDMA queue full": "SDMA queue full",
    "branch": "taken branch",
    "firmware": "firmware service",
    "barrier": "other cores, at a barrier",
}


@dataclass(frozen=True)
class CallSite:
    """A call of a function: the graph node that it computes, and the line of Python from which the node comes."""

    function: str
    node: str = ""
    source: str = ""


@dataclass
class CallProfile:
    """What happened from the first packet of a call to that of the next. cycles = packets + all stall cycles."""

    site: CallSite
    packets: int
    cycles: int
    stall_cycles: dict[str, int]
    joules: float = 0.0


@dataclass
class Profile:
    """A whole run. The cycles of `calls` add up to `stats.cycles`, and the joules to `stats.energy.joules`.

    calls[i] is the i-th call, counted from 1; calls[0] is what the driver does before, and the last entry the wait for
    the last transfers.
    """

    stats: Stats
    calls: list[CallProfile] = field(default_factory=list)

    def reasons(self) -> dict[str, int]:
        """Cycles by reason, largest first: one per packet issued, the stalls, and the wait for the last transfers."""
        stalls = {reason_text(name): count for name, count in self.stats.stall_cycles.items()}
        drain = sum(call.cycles for call in self.calls if call.site.function == DRAIN)
        return _sorted({ISSUE: self.stats.packets, **stalls, DRAIN: drain})

    def _number(self, index: int) -> str:
        return str(index) if 0 < index < len(self.calls) - 1 else ""

    def to_json(self) -> dict[str, Any]:
        return {"stats": self.stats.to_json(), "calls": [asdict(call) for call in self.calls]}

    def __str__(self) -> str:
        stats = self.stats
        numbered = [(self._number(i), call) for i, call in enumerate(self.calls)]
        calls = [
            (call.cycles, [text(call.joules), f"{call.packets:,}", number, _main_stall(call), *astuple(call.site)])
            for number, call in sorted(numbered, key=lambda item: -item[1].cycles)
        ]
        units = [
            (cycles, [f"{stats.unit_instructions[unit]:,}", unit])
            for unit, cycles in _sorted(stats.unit_cycles).items()
            if stats.unit_instructions[unit]
        ]
        reasons = [(cycles, [reason]) for reason, cycles in self.reasons().items()]
        lines = [f"{stats.cycles:,} cycles, {stats.packets:,} packets, {stats.instructions:,} instructions"]
        for title, head, rows in (
            ("by call", ["energy", "packets", "call", "main stall", "function", "node", "source"], calls),
            (
                "by unit (occupied; units work at the same time; sdma: of both engines together)",
                ["instructions", "unit"],
                units,
            ),
            ("by reason", ["reason"], reasons),
        ):
            shown = [[f"{n:,}", f"{n / max(stats.cycles, 1):.1%}", *cells] for n, cells in rows]
            lines += ["", title, *_aligned([["cycles", "share", *head], *shown])]
        return "\n".join(lines)


def reason_text(stall: str) -> str:
    return _REASONS.get(stall, f"RAW: result of {stall}")


def issue_clock(stats: Stats) -> int:
    """The cycle after the latest packet's issue and its branch or service: each packet issues for one cycle."""
    return stats.packets + sum(stats.stall_cycles.values())


def profile(
    machine: Machine, calls: Sequence[tuple[int, CallSite]], after: Callable[[int], None] = lambda finished: None
) -> Profile:
    """Run a machine to its end, and attribute its cycles to calls.

    calls: in the order of the run, byte address of the function's first packet, which no loop enters again, and site.
    after: called with the number of finished calls, from 0 (before the first call) to all of them; it may read the
    machine. Raises ValueError if the program makes more calls or fewer than `calls` has.
    """
    for address, _ in calls:
        machine.breakpoint(address)
    result, before = Profile(machine.stats()), machine.stats()
    for finished, site in enumerate([CallSite(DRIVER if calls else WHOLE), *(site for _, site in calls)]):
        if machine.stop == "halted":
            raise ValueError(f"expected {len(calls)} calls, found {finished - 1}")
        machine.run()
        now = machine.stats()
        stalls = {name: n - before.stall_cycles[name] for name, n in now.stall_cycles.items()}
        stalls = {name: n for name, n in stalls.items() if n}
        packets = now.packets - before.packets
        joules = (now.energy.total - before.energy.total) / 1e15
        result.calls.append(CallProfile(site, packets, packets + sum(stalls.values()), stalls, joules))
        before = now
        after(finished)
    if machine.stop != "halted":
        raise ValueError(f"expected {len(calls)} calls, found another at 0x{machine.pc:08X}")
    result.stats = before
    result.calls.append(CallProfile(CallSite(DRAIN), 0, before.cycles - issue_clock(before), {}))
    return result


def _main_stall(call: CallProfile) -> str:
    name, cycles = max(call.stall_cycles.items(), key=lambda item: item[1], default=("", 0))
    return f"{reason_text(name)} {cycles / call.cycles:.0%}" if cycles else ""


def _sorted(cycles: Mapping[str, int]) -> dict[str, int]:
    return {name: n for name, n in sorted(cycles.items(), key=lambda item: -item[1]) if n}


def _aligned(rows: list[list[str]]) -> list[str]:
    """A head and rows: columns of numbers to the right, those of names to the left."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    names = [head not in ("cycles", "share", "packets", "call", "instructions") for head in rows[0]]
    return [
        "  ".join(c.ljust(w) if name else c.rjust(w) for c, w, name in zip(row, widths, names)).rstrip() for row in rows
    ]
