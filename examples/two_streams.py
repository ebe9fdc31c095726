# SPDX-License-Identifier: BSD-3-Clause
"""Overlap of two streams
======================

Two streams at once: sorting keeps the vector unit busy while the next batch comes in over the bus.

Usage::

    python examples/two_streams.py [trace.json]

Prints how much of the shorter part the longer one hides, in simulated time and in wall time, and writes both streams
as a trace for Perfetto (https://ui.perfetto.dev): streams and units, in simulated time.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import torch

import torch_atalla
from torch_atalla import telemetry

ROUNDS = 4
ELEMENTS = 256 * 1024


class Workload:
    """A sort on one stream, uploads from pinned memory on another."""

    def __init__(self) -> None:
        self.scores = torch.randn(ELEMENTS, device="atalla")
        self.batch = torch.randn(10, 1024, 1024).pin_memory()
        self.there = torch.empty_like(self.batch, device="atalla")
        self.compute, self.transfer = torch.Stream(device="atalla"), torch.Stream(device="atalla")

    def sort(self) -> None:
        with self.compute:
            for _ in range(ROUNDS):
                torch.sort(self.scores)

    def upload(self) -> None:
        with self.transfer:
            for _ in range(ROUNDS):
                self.there.copy_(self.batch, non_blocking=True)


def simulated_ms(*parts: Callable[[], None]) -> tuple[float, telemetry.Recording]:
    """Time of the parts on the device's clock, from the first start to the last end."""
    torch.atalla.synchronize()
    with telemetry.Recording() as recording:
        for part in parts:
            part()
        torch.atalla.synchronize()
    (device,) = [d for d in recording.devices if d.work]
    span = max(w.end_cycle for w in device.work) - min(w.start_cycle for w in device.work)
    return span / device.clock_hz * 1e3, recording


def wall_ms(*parts: Callable[[], None], tries: int = 5) -> float:
    """The best of several times on the host's clock."""
    best = float("inf")
    for _ in range(tries):
        torch.atalla.synchronize()
        start = time.perf_counter()
        for part in parts:
            part()
        torch.atalla.synchronize()
        best = min(best, (time.perf_counter() - start) * 1e3)
    return best


def report(name: str, sort: float, upload: float, both: float) -> None:
    hidden = (sort + upload - both) / min(sort, upload)
    print(f"{name:10} sort {sort:9.3f} ms, upload {upload:9.3f} ms, both at once {both:9.3f} ms: "
          f"{hidden:6.1%} of the shorter part is hidden")  # fmt: skip


def main(path: str) -> None:
    torch_atalla.chip.set_num_threads(1)  # one core for each stream
    work = Workload()
    work.sort(), work.upload()  # buffers, worker threads
    (sort, _), (upload, _) = simulated_ms(work.sort), simulated_ms(work.upload)
    both, recording = simulated_ms(work.sort, work.upload)
    report("simulated", sort, upload, both)
    cores = len(os.sched_getaffinity(0))
    if cores > 1:
        report("wall", wall_ms(work.sort), wall_ms(work.upload), wall_ms(work.sort, work.upload))
    else:
        print("wall       one core: the streams take turns")
    recording.save(path)
    print(f"{path}: open it in Perfetto")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "two_streams.json")
