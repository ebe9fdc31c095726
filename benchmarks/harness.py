# SPDX-License-Identifier: BSD-3-Clause
"""Paired measurement of two callables.

A machine's speed drifts: with its clock, its caches and its other work. So the two are run in turn, many short samples
each, and compared sample by sample with the neighbour in time; the published number is a median, with its spread.

    pair = measure_pair(lambda: y.copy_(x), lambda: v.copy_(u), synchronize=torch.atalla.synchronize)
    print(pair.ratio.median, pair.ratio.iqr)
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

import torch_atalla

Clock = Callable[[], float]


@dataclass(frozen=True)
class Spread:
    """Median and quartiles of a list of numbers."""

    median: float
    low: float  # first quartile
    high: float  # third quartile

    @property
    def iqr(self) -> float:
        return self.high - self.low

    @staticmethod
    def of(numbers: list[float]) -> Spread:
        if not numbers:
            raise ValueError("Spread.of: expected at least one number, got none")
        if len(numbers) == 1:
            return Spread(numbers[0], numbers[0], numbers[0])
        low, median, high = statistics.quantiles(numbers, n=4, method="inclusive")
        return Spread(median, low, high)


@dataclass(frozen=True)
class Pair:
    """Seconds a call of the two, and first over second, sample by sample."""

    first: Spread
    second: Spread
    ratio: Spread
    rounds: int
    calls: tuple[int, int]  # in one sample


@dataclass(frozen=True)
class Effort:
    """How long to measure. `sample_seconds` is the least length of a sample, by as many calls as that takes.

    `settle_seconds` pass before each sample: worker threads of the other side, which wait for more work in a busy loop
    for a few milliseconds, go to sleep and leave the core.
    """

    rounds: int = 31
    sample_seconds: float = 0.02
    settle_seconds: float = 0.005


QUICK = Effort(rounds=5, sample_seconds=0.004, settle_seconds=0.002)


@dataclass
class _Side:
    function: Callable[[], object]
    synchronize: Callable[[], object]
    clock: Clock
    calls: int = 1

    def run(self, calls: int) -> float:
        """Seconds of that many calls and of waiting for their work."""
        function = self.function
        start = self.clock()
        for _ in range(calls):
            function()
        self.synchronize()
        return self.clock() - start

    def calibrate(self, effort: Effort) -> None:
        """Finds how many calls fill a sample."""
        self.run(3)
        while (seconds := self.run(self.calls)) < effort.sample_seconds:
            missing = effort.sample_seconds / seconds if seconds > 0 else 100.0
            self.calls = max(self.calls + 1, int(self.calls * min(missing * 1.1, 100.0)))

    def sample(self) -> float:
        """Seconds a call. A tenth of the calls again come first: they bring back caches, clock and worker threads."""
        self.run(1 + self.calls // 10)
        return self.run(self.calls) / self.calls


def measure_pair(
    first: Callable[[], object],
    second: Callable[[], object],
    *,
    effort: Effort = Effort(),
    synchronize: Callable[[], object] = lambda: None,
    clock: Clock = time.perf_counter,
    pause: Callable[[float], object] = time.sleep,
) -> Pair:
    """Measures both in turn. `synchronize` waits for the work of `first`, whose calls may return before it is done.

    The order changes from round to round, so that neither always comes second. The garbage collector is off.
    """
    sides = (_Side(first, synchronize, clock), _Side(second, lambda: None, clock))
    samples: tuple[list[float], list[float]] = ([], [])
    with _no_garbage_collection():
        for side in sides:
            side.calibrate(effort)
        for number in range(effort.rounds):
            for k in (0, 1) if number % 2 == 0 else (1, 0):
                pause(effort.settle_seconds)
                samples[k].append(sides[k].sample())
    return Pair(
        first=Spread.of(samples[0]),
        second=Spread.of(samples[1]),
        ratio=Spread.of([a / b for a, b in zip(*samples)]),
        rounds=effort.rounds,
        calls=(sides[0].calls, sides[1].calls),
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def threads(number: int) -> Iterator[None]:
    """The same number of host threads for PyTorch's CPU kernels and for the chip's functional engine."""
    before = torch.get_num_threads(), torch_atalla.chip.get_num_threads()
    torch.set_num_threads(number)
    torch_atalla.chip.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch_atalla.chip.set_num_threads(before[1])
