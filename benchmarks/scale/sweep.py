# SPDX-License-Identifier: BSD-3-Clause
"""A cost that is measured for several sizes, and how it grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from statistics import linear_regression

import torch

RUNS = 5


@dataclass(frozen=True)
class Sweep:
    name: str  # with n for the size
    sizes: tuple[int, ...]
    cost: Callable[[int], float]  # seconds
    bound: str  # one sentence: what bounds the cost of large sizes


def least(work: Callable[[], object], calls: int = 1, runs: int = RUNS) -> float:
    """The least seconds per call of a few runs."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        torch.atalla.synchronize()
        best = min(best, time.perf_counter() - start)
    return best / calls


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """The slope of log(cost) over log(size) between the upper half of the sizes: 1 is proportional, 0 is constant."""
    half = len(sizes) // 2
    return linear_regression([log(n) for n in sizes[half:]], [log(cost) for cost in costs[half:]]).slope
