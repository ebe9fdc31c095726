# SPDX-License-Identifier: BSD-3-Clause
"""The machine that measures: what it is, and how much else it does meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

import torch

_TICKS = os.sysconf("SC_CLK_TCK")


class OtherWork:
    """CPUs that other processes kept busy since this object was made (1.0: one whole CPU all the time)."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    def cpus(self) -> float:
        elapsed = max(time.monotonic() - self._start, 1e-9)
        other = (_busy_seconds() - self._busy) - (_own_seconds() - self._own)
        return max(other / elapsed, 0.0)


def _busy_seconds() -> float:
    """Of all CPUs since boot, time taken by other guests of the host included."""
    user, nice, system, _idle, _iowait, *rest = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(rest)) / _TICKS


def _own_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def other_work_now(seconds: float = 1.0) -> float:
    work = OtherWork()
    time.sleep(seconds)
    return work.cpus()


class CoreDistance:
    """How far the first two CPUs of this process are from each other. The host of a virtual machine may move them."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "core_distance"
        source = Path(__file__).with_name("core_distance.cpp")
        subprocess.run(["g++", "-std=c++20", "-O2", "-pthread", source, "-o", self._program], check=True)

    def nanoseconds(self) -> int | None:
        """Of a cache line's way from one to the other and back; None with a single CPU."""
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            return None
        return int(subprocess.run([self._program, *map(str, cpus)], check=True, capture_output=True, text=True).stdout)


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def describe() -> dict[str, object]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
