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


class _Vectors:
    """Free vector registers, of which some are taken as pairs: an even one and the next. Both are taken in the order in
    which they were freed."""

    def __init__(self) -> None:
        self.clock = 0
        self.pairs = deque((0, number) for number in range(2, VECTORS, 2))  # since when it is free, and the lower one
        self.singles = deque([(0, 1)])  # whose neighbours are not free

    def __len__(self) -> int:
        return 2 * len(self.pairs) + len(self.singles)

    def append(self, number: int) -> None:
        self.clock += 1
        neighbour = next((entry for entry in self.singles if entry[1] == number ^ 1), None)
        if neighbour is None:
            self.singles.append((self.clock, number))
        else:
            self.singles.remove(neighbour)
            self.pairs.append((self.clock, number & ~1))

    def popleft(self) -> int:
        if not self.singles or (self.pairs and self.pairs[0] < self.singles[0]):
            since, number = self.pairs.popleft()
            self.singles.appendleft((since, number + 1))
            return number
        return self.singles.popleft()[1]

    def take_pair(self) -> int | None:
        """The lower register; None if no pair is free."""
        return self.pairs.popleft()[1] if self.pairs else None


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
            for named in item.reads() + item.writes():
                reg = named.low or named  # a pair lives and moves as one
                if reg.number is None:
                    first.setdefault(reg, position)
                    last[reg] = position
    for begin, end in loops:  # inner loops come first
        for reg, start in first.items():
            if start < begin < last[reg] < end:
                last[reg] = end
    has_pairs = any(reg.high is not None for reg in first)
    free: dict[str, deque[int] | _Vectors] = {
        "x": deque(range(FIRST_FREE_SCALAR, LAST_FREE_SCALAR)),
        "v": _Vectors() if has_pairs else deque(range(1, VECTORS)),
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
            pool = free[gone.kind]
            pool.append(gone.number)
            if gone.high is not None:
                pool.append(gone.number + 1)
        pool = free[reg.kind]
        number = pool.take_pair() if isinstance(pool, _Vectors) and reg.high is not None else None
        if reg.high is None and pool:
            number = pool.popleft()
        if number is None:
            raise OutOfRegisters(f"{builder.name}: more than {total[reg.kind]} {reg.kind} registers at item {start}")
        reg.number = number
        if reg.high is not None:
            reg.high.number = number + 1
        least[reg.kind] = min(least[reg.kind], len(free[reg.kind]))
        heapq.heappush(active, (last[reg], order, reg))
    return {kind: total[kind] - least[kind] for kind in total}
