# SPDX-License-Identifier: BSD-3-Clause
"""What a loadable costs beside its kernels: calls from Python and C++, loading, memory of a process without torch.

    python -m benchmarks.loadable.call [--json]

The graph is the smallest that computes something: softmax(relu(x) @ w) on 4 x 8. Times are medians in microseconds,
with everything on the device; loading and memory are of the smallest graph and of an MLP of three layers 1024 wide.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import torch_atalla

RUN = Path(torch_atalla.__file__).parent / "bin" / "atalla-run"


class Seed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x) @ self.weight).softmax(-1)


def mlp() -> nn.Module:
    return nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU()))).eval()


def python_call(path: Path, rounds: int = 2000) -> float:
    program = torch_atalla.load_loadable(path)
    x = torch.randn(4, 8, device="atalla")
    times = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        program(x)
        times.append(time.perf_counter_ns() - begin)
    torch.atalla.synchronize()
    return statistics.median(times) / 1e3


def load_once(path: Path) -> float:
    """Seconds from a file in the page cache to a program that can be called; closing it is not counted."""
    begin = time.perf_counter()
    program = torch_atalla.load_loadable(path)
    seconds = time.perf_counter() - begin
    del program
    return seconds


def load(path: Path, rounds: int = 20) -> float:
    """Milliseconds of the median load in this process."""
    return statistics.median(load_once(path) for _ in range(rounds)) * 1e3


def copy_to_fresh_memory(size: int) -> float:
    """Seconds of a memcpy of that many bytes into untouched memory."""
    source = torch.ones(max(size, 1), dtype=torch.uint8)
    fresh = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # malloc might give used pages again
    target = ctypes.addressof(ctypes.c_char.from_buffer(fresh))
    begin = time.perf_counter()
    ctypes.memmove(target, source.data_ptr(), size)
    return time.perf_counter() - begin


def without_torch(path: Path, *options: str) -> dict[str, float]:
    """Of `atalla-run --bench`: microseconds of a run, milliseconds to load, peak memory in bytes."""
    done = subprocess.run([RUN, path, "--bench", *options], capture_output=True, text=True, check=True)
    found = re.findall(r"(\w+) ([0-9.]+)", done.stdout)
    return {name: float(number) for name, number in found}


def measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        seed, large = Path(folder) / "seed.atl", Path(folder) / "mlp.atl"
        torch_atalla.save_loadable(Seed().eval(), seed, args=(torch.randn(4, 8),), fallback="error")
        report = torch_atalla.save_loadable(mlp(), large, args=(torch.randn(32, 1024),), fallback="error")
        small, big = without_torch(seed), without_torch(large)
        copy = statistics.median(copy_to_fresh_memory(report.weight_bytes) for _ in range(10))
        return {
            "call from Python, us": python_call(seed),
            "call from C++, us": small["run_us"],
            "load seed, ms": load(seed),
            "load mlp, ms": load(large),
            "load mlp without torch, ms": big["load_ms"],
            "one copy of mlp's weights, ms": copy * 1e3,
            "peak memory of mlp without torch, MB": big["peak_bytes"] / 1e6,
            "weights and arena of mlp, MB": (report.weight_bytes + report.arena_bytes) / 1e6,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure()
    if args.json:
        json.dump(found, sys.stdout, indent=1)
        return
    for name, number in found.items():
        print(f"{name:<40}{number:>12.2f}")


if __name__ == "__main__":
    main()
