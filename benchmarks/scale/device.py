# SPDX-License-Identifier: BSD-3-Clause
"""Costs of eager mode and of graphs on the device."""

from __future__ import annotations

import torch

from .sweep import Sweep, least


def add(elements: int) -> float:
    x, out = torch.ones(elements, device="atalla"), torch.empty(elements, device="atalla")
    return least(lambda: torch.add(x, x, out=out), max(1, min(2000, 2**22 // elements)))


def live_tensors(number: int) -> float:
    """Of one more tensor of 4 KiB, made and freed beside so many."""
    kept = [torch.empty(1024, device="atalla") for _ in range(number)]
    cost = least(lambda: torch.empty(1024, device="atalla"), 2000)
    del kept
    return cost


def fragments(number: int) -> float:
    """Of one more tensor of 4 KiB, made and freed beside so many, between which as many are free."""
    kept = [torch.empty(1024, device="atalla") for _ in range(2 * number)][::2]
    cost = least(lambda: torch.empty(1024, device="atalla"), 2000)
    del kept
    return cost


def streams(number: int) -> float:
    """Of a launch on each of so many streams, and of waiting for all."""
    x = torch.ones(8, device="atalla")
    given = [torch.Stream("atalla") for _ in range(number)]

    def each() -> None:
        for stream in given:
            with stream:
                torch.add(x, x)
        torch.atalla.synchronize()

    return least(each, max(1, 256 // number))


def _capture(nodes: int) -> torch.atalla.Graph:
    x = torch.ones(8, device="atalla")
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph):
        for _ in range(nodes):
            x = x + 1
    return graph


def capture(nodes: int) -> float:
    return least(lambda: _capture(nodes))


def replay(nodes: int) -> float:
    return least(_capture(nodes).replay, max(1, 2000 // nodes))


SWEEPS = (
    Sweep(
        "`add` of n elements",
        (1, 2**6, 2**10, 2**14, 2**17, 2**20, 2**22, 2**24, 2**26, 2**28),
        add,
        "The memory of the host bounds it once the operands leave its caches.",
    ),
    Sweep(
        "a new tensor beside n others",
        (10, 100, 1000, 10_000, 100_000),
        live_tensors,
        "The allocator returns the block that was freed last, whatever else is there.",
    ),
    Sweep(
        "a new tensor beside n gaps",
        (10, 100, 1000, 10_000, 50_000),
        fragments,
        "The allocator searches its free blocks sorted by size.",
    ),
    Sweep(
        "a launch on each of n streams",
        (1, 2, 4, 8, 16, 32, 64),
        streams,
        "Each stream costs its launch and one wait.",
    ),
    Sweep(
        "capture of n launches",
        (10, 100, 1000, 5000, 20_000),
        capture,
        "Python's dispatch of each op bounds it, after a garbage collection that each capture starts with.",
    ),
    Sweep(
        "replay of n launches",
        (10, 100, 1000, 5000, 20_000),
        replay,
        "Launches cost the same each, until their descriptors leave the host's caches.",
    ),
)
