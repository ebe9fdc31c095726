# SPDX-License-Identifier: BSD-3-Clause
"""A DRAM controller that steps through every cycle: slow, plain, and written apart from csrc/sim/dram."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PRESETS = Path(__file__).parents[2] / "csrc/sim/dram/presets"


def preset(name: str) -> dict[str, Any]:
    """The values of a preset, by their names without the section."""
    sections = tomllib.loads((PRESETS / f"{name}.toml").read_text())
    return {key: entry["value"] for section in sections.values() for key, entry in section.items()}


class Controller:
    """First-ready first-come: of the waiting requests, the first whose row is open, else the first that can be opened.

    One channel. A closed-page controller closes a row after `row_accesses` accesses. Each rank is refreshed every
    `refi` cycles, as soon as its banks can close.
    """

    def __init__(self, p: dict[str, Any]) -> None:
        assert p["channels"] == 1
        self.p, self.t = p, 0
        self.waiting: list[tuple[int, int, int, int]] = []  # rank, group, bank, row
        self.open: dict[tuple[int, int, int], int] = {}
        self.used: dict[tuple[int, int, int], int] = {}
        self.bank_act: dict[tuple[int, int, int], int] = {}
        self.bank_free: dict[tuple[int, int, int], int] = {}
        self.closable: dict[tuple[int, int, int], int] = {}
        self.acts: list[tuple[int, int, int]] = []  # cycle, rank, group
        self.columns: list[tuple[int, int, int]] = []
        self.refresh = [p["refi"]] * p["ranks"]
        self.refreshed = [0] * p["ranks"]
        self.data = 0  # cycle after the last byte
        widths = {
            "column": p["row_bytes"] // p["burst_bytes"],
            "rank": p["ranks"],
            "group": p["bank_groups"],
            "bank": p["banks"],
            "channel": 1,
        }
        self.fields = [(name, widths[name]) for name in reversed(p["mapping"].split()[1:])]

    def place(self, address: int) -> tuple[int, int, int, int]:
        rest, found = address // self.p["burst_bytes"], {}
        for name, width in self.fields:
            rest, found[name] = divmod(rest, width)
        return found["rank"], found["group"], found["bank"], rest

    def column_ready(self, request: tuple[int, int, int, int]) -> bool:
        p, bank = self.p, request[:3]
        if self.t < self.bank_act[bank] + p["rcd"]:
            return False
        for cycle, rank, group in self.columns[-8:]:
            same = (rank, group) == request[:2]
            gap = p["ccd_l"] if same else p["ccd_s"] if rank == request[0] else p["burst"] + p["turnaround"]
            if self.t < cycle + gap:
                return False
        return True

    def activate_ready(self, request: tuple[int, int, int, int]) -> bool:
        p = self.p
        if self.t < max(self.bank_free.get(request[:3], 0), self.refreshed[request[0]]):
            return False
        mine = [(cycle, group) for cycle, rank, group in self.acts if rank == request[0]][-4:]
        if len(mine) == 4 and self.t < mine[0][0] + p["faw"]:
            return False
        return all(self.t >= cycle + p["rrd_l" if group == request[1] else "rrd_s"] for cycle, group in mine)

    def close(self, bank: tuple[int, int, int]) -> None:
        del self.open[bank]
        self.bank_free[bank] = max(self.t + self.p["rp"], self.bank_act[bank] + self.p["ras"] + self.p["rp"])

    def command(self) -> None:
        """At most one command in this cycle."""
        p = self.p
        for rank in range(p["ranks"]):
            if self.t < self.refresh[rank]:
                continue
            banks = [bank for bank in self.open if bank[0] == rank]
            for bank in banks:
                if self.t >= self.closable[bank]:
                    self.close(bank)
                    return
            if not banks and all(self.t >= free for bank, free in self.bank_free.items() if bank[0] == rank):
                self.refreshed[rank] = self.t + p["rfc"]
                self.refresh[rank] += p["refi"]
                return
        for bank in list(self.open):
            if p["page"] == "closed" and self.used[bank] >= p["row_accesses"] and self.t >= self.closable[bank]:
                self.close(bank)
                return
        usable = [r for r in self.waiting if self.t < self.refresh[r[0]]]
        for request in usable:
            bank = request[:3]
            full = p["page"] == "closed" and self.used.get(bank, 0) >= p["row_accesses"]
            if self.open.get(bank) == request[3] and not full and self.column_ready(request):
                self.waiting.remove(request)
                self.columns.append((self.t, *request[:2]))
                self.used[bank] += 1
                self.closable[bank] = max(self.closable[bank], self.t + p["rtp"])
                self.data = max(self.data, self.t + p["cl"] + p["burst"])
                return
        for request in usable:
            bank = request[:3]
            if bank not in self.open:
                if self.activate_ready(request):
                    self.open[bank], self.used[bank], self.bank_act[bank] = request[3], 0, self.t
                    self.closable[bank] = self.t + p["ras"]
                    self.acts = [*self.acts[-15:], (self.t, *request[:2])]
                    return
            elif self.open[bank] != request[3] and self.t >= self.closable[bank]:
                if not any(other[:3] == bank and other[3] == self.open[bank] for other in self.waiting):
                    self.close(bank)
                    return

    def read(self, addresses: Iterable[int]) -> int:
        """Reads all of them, one request per `request_cycles`; the cycle at which the last byte has arrived."""
        left, issued = list(addresses), self.t - self.p["request_cycles"]
        while left or self.waiting:
            if left and len(self.waiting) < self.p["window"] and self.t >= issued + self.p["request_cycles"]:
                self.waiting.append(self.place(left.pop(0)))
                issued = self.t
            self.command()
            self.t += 1
        self.t = max(self.t, self.data)
        return self.t
