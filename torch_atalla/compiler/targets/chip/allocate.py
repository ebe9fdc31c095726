# SPDX-License-Identifier: BSD-3-Clause
"""Linear-scan register allocation.

A register lives from its first to its last mention in program order; what enters a loop from outside lives to the
loop's end, because the next iteration reads it again. Freed registers are taken up in the order in which they were
freed, so that neighbouring values get different registers and the scheduler sees few false dependences.
"""

from __future__ import annotations

import heapq
from collections import deque

from .machine import MASKS, VECTORS
from .vir import FIRST_FREE_SCALAR, LAST_FREE_SCALAR, Builder, Inst, LoopBegin, LoopEnd, Reg


class OutOfRegisters(Exception):
    """A kernel keeps more values alive than there are registers; its author must take smaller blocks."""


def allocate(builder: Builder) -> dict[str, int]:
    """Gives every virtual register a number. Returns how many of each kind are used at once, at most."""
    first: dict[Reg, int] = {}
    last: dict[Reg, int] = {}
    loops: list[tuple[int, int]] = []
    open_loops: list[int] = []
    for position, item in enumerate(builder.items):
        if isinstance(item, LoopBegin):
            open_loops.append(position)
        elif isinstance(item, LoopEnd):
            loops.append((open_loops.pop(), position))
        elif isinstance(item, Inst):
            for reg in item.reads() + item.writes():
                if reg.number is None:
                    first.setdefault(reg, position)
                    last[reg] = position
    for begin, end in loops:  # inner loops come first
        for reg, start in first.items():
            if start < begin < last[reg] < end:
                last[reg] = end
    free = {
        "x": deque(range(FIRST_FREE_SCALAR, LAST_FREE_SCALAR)),
        "v": deque(range(1, VECTORS)),
        "m": deque(range(1, MASKS)),
    }
    total = {kind: len(pool) for kind, pool in free.items()}
    least = dict(total)
    active: list[tuple[int, int, Reg]] = []
    for order, (reg, start) in enumerate(sorted(first.items(), key=lambda pair: pair[1])):
        # A register that dies at `start` is read there, before this one is written.
        while active and active[0][0] <= start:
            gone = heapq.heappop(active)[2]
            assert gone.number is not None
            free[gone.kind].append(gone.number)
        if not free[reg.kind]:
            raise OutOfRegisters(f"{builder.name}: more than {total[reg.kind]} {reg.kind} registers at item {start}")
        reg.number = free[reg.kind].popleft()
        least[reg.kind] = min(least[reg.kind], len(free[reg.kind]))
        heapq.heappush(active, (last[reg], order, reg))
    return {kind: total[kind] - least[kind] for kind in total}
