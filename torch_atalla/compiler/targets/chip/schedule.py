# SPDX-License-Identifier: BSD-3-Clause
"""List scheduling of one function's blocks into packets.

Registers are allocated already. Inside a block an instruction becomes a candidate when what it depends on has issued;
the candidate on the longest path of latencies goes first. The hardware interlocks, so latencies guide the order and a
cycle in which nothing is ready costs no packet. There is never a dependence of any kind between two slots of a
packet.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from torch_atalla.isa.table import SLOTS

from .machine import ports, unit_limit
from .vir import Access, Builder, Inst, Label, Reg


@dataclass
class Packet:
    slots: list[Inst] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)  # that stand before it


def schedule(builder: Builder) -> list[Packet]:
    """The packets of the function, in program order."""
    packets: list[Packet] = []
    labels: list[Label] = []
    block: list[Inst] = []

    def flush() -> None:
        nonlocal block, labels
        if block:
            made = _schedule_block(block)
            made[0].labels = labels
            packets.extend(made)
            block, labels = [], []

    for item in builder.items:
        if isinstance(item, Inst):
            block.append(item)
            if item.spec.unit == "control":
                flush()
        elif isinstance(item, Label):
            flush()
            labels.append(item)
    flush()
    assert not labels, f"{builder.name}: a label at the very end; end the function with ret()"
    return packets


class _Resources:
    """What the packet under construction has taken."""

    def __init__(self) -> None:
        self.units: dict[str, int] = {}
        self.ports: dict[str, set[int]] = {"x": set(), "v": set(), "m": set()}
        self.slots = 0

    def take(self, inst: Inst) -> bool:
        unit = inst.spec.unit
        if self.slots == SLOTS or self.units.get(unit, 0) >= unit_limit(unit):
            return False
        reads = port_reads(inst)
        for kind, have in self.ports.items():
            if len(have | reads[kind]) > ports()[kind]:
                return False
        for kind, have in self.ports.items():
            have |= reads[kind]
        self.units[unit] = self.units.get(unit, 0) + 1
        self.slots += 1
        return True


def port_reads(inst: Inst) -> dict[str, set[int]]:
    """Distinct registers that the instruction reads through ports; x0 and v0 need none."""
    found: dict[str, set[int]] = {"x": set(), "v": set(), "m": set()}
    regs = inst.registers(inst.spec.reads)
    if "mask" in inst.spec.reads:
        found["m"].add(inst.operands["mask"].number if inst.operands.get("mask") else 0)
    for reg in regs:
        if reg.number or reg.kind == "m":
            found[reg.kind].add(reg.number or 0)
    return found


def _dependences(block: list[Inst]) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """For each instruction its successors with the least distance in cycles (at least 1), and the predecessors'
    number.
    """
    successors: list[dict[int, int]] = [{} for _ in block]
    writer: dict[tuple[str, int], int] = {}
    readers: dict[tuple[str, int], list[int]] = {}
    touched: dict[str, list[tuple[int, Access]]] = {}

    def edge(before: int, after: int, distance: int) -> None:
        if before != after:
            successors[before][after] = max(successors[before].get(after, 1), distance)

    for index, inst in enumerate(block):
        for reg in inst.reads():
            key = _key(reg)
            if key in writer:
                edge(writer[key], index, block[writer[key]].spec.latency)
            readers.setdefault(key, []).append(index)
        for reg in inst.writes():
            key = _key(reg)
            if reg.number == 0 and reg.kind != "m":
                continue
            if key in writer:
                edge(writer[key], index, 1)
            for reader in readers.get(key, ()):
                edge(reader, index, 1)
            writer[key] = index
            readers[key] = []
        for access in inst.access:
            history = touched.setdefault(access.region, [])
            for other, old in history:
                apart = old.key is not None and access.key is not None and old.key != access.key
                if (old.write or access.write) and not apart:
                    edge(other, index, 1)
            if access.region == "weights" and access.write:
                history.clear()  # what came before is ordered through this one
            history.append((index, access))
    counts = [0] * len(block)
    for edges in successors:
        for after in edges:
            counts[after] += 1
    return [list(edges.items()) for edges in successors], counts


def _key(reg: Reg) -> tuple[str, int]:
    assert reg.number is not None, "registers are allocated before scheduling"
    return reg.kind, reg.number


def _schedule_block(block: list[Inst]) -> list[Packet]:
    branch = block[-1] if block[-1].spec.unit == "control" else None
    body = len(block) - (branch is not None)
    successors, waiting = _dependences(block)
    height = [0] * len(block)
    for index in range(len(block) - 1, -1, -1):
        height[index] = max((height[after] + distance for after, distance in successors[index]), default=0)
    earliest = [0] * len(block)
    ready = [(-height[i], i) for i in range(body) if not waiting[i]]
    heapq.heapify(ready)
    later: list[tuple[int, int]] = []  # (first possible cycle, index)
    busy: dict[str, int] = {}
    packets: list[Packet] = []
    resources: list[_Resources] = []
    cycles: list[int] = []
    cycle = done = 0
    while done < body:
        while later and later[0][0] <= cycle:
            index = heapq.heappop(later)[1]
            heapq.heappush(ready, (-height[index], index))
        packet, taken = Packet(), _Resources()
        kept: list[tuple[int, int]] = []
        issued: list[int] = []
        while ready and taken.slots < SLOTS:
            entry = heapq.heappop(ready)
            inst = block[entry[1]]
            if busy.get(inst.spec.unit, 0) <= cycle and taken.take(inst):
                packet.slots.append(inst)
                issued.append(entry[1])
            else:
                kept.append(entry)
        for entry in kept:
            heapq.heappush(ready, entry)
        for index in issued:
            unit = block[index].spec
            if unit.occupancy > 1:
                busy[unit.unit] = cycle + unit.occupancy
            for after, distance in successors[index]:
                earliest[after] = max(earliest[after], cycle + distance)
                waiting[after] -= 1
                if not waiting[after] and after < body:
                    heapq.heappush(later, (earliest[after], after))
        done += len(issued)
        if issued:
            packets.append(packet)
            resources.append(taken)
            cycles.append(cycle)
        cycle += 1
        if not ready and later:
            cycle = max(cycle, later[0][0])
    if branch is not None:
        fits = packets and earliest[-1] <= cycles[-1] and _shares(branch, packets[-1]) and resources[-1].take(branch)
        if not fits:
            packets.append(Packet())
        packets[-1].slots.insert(0, branch)
    return packets


def _shares(branch: Inst, packet: Packet) -> bool:
    """Jumps stand alone: their link register and target are read when the packet's other slots are done."""
    return branch.name not in ("jal", "jalr.s", "halt.s") or not packet.slots
