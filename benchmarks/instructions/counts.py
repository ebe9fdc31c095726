# SPDX-License-Identifier: BSD-3-Clause
"""Runs the workload under callgrind: instructions per call of each case, by part."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from .profile import functions, instructions

ROOT = Path(__file__).resolve().parents[2]
HEADER = Path("/usr/include/valgrind/callgrind.h")
DEVICE_LIBRARY = ROOT / "build/baseline/lib/libatalla_sim.so"
PARTS = ("chip", "driver", "extension", "torch")

Counts = dict[str, dict[str, int]]  # case -> part -> instructions per call


def missing() -> str:
    """What is missing to count, or nothing."""
    if shutil.which("valgrind") is None or not HEADER.exists():
        return "valgrind is missing; apt-get install valgrind"
    if shutil.which("gcc") is None:
        return "gcc is missing"
    return ""


def build() -> None:
    """The chip for the narrowest instruction set: every machine executes the same instructions of it."""
    command = [sys.executable, "tools/build.py", "sim", "--config", "baseline"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)


def environment() -> dict[str, str]:
    """One thread, no decision by time, no instruction set beyond the baseline in our libraries."""
    return os.environ | {
        "ATALLA_DEVICE_LIBRARY": str(DEVICE_LIBRARY),
        "ATALLA_LAUNCH": "inline",
        "ATALLA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",
        "TORCH_ATALLA_FALLBACK": "error",
    }


def measure(device: str, folder: Path) -> dict[str, Path]:
    """Runs the cases; gives callgrind's file of each. Raises RuntimeError with what the process printed."""
    requests = folder / "requests.so"
    source = Path(__file__).with_name("requests.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", requests, source], check=True)
    out = folder / "callgrind.out"
    options = ["--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no", f"--callgrind-out-file={out}"]
    python = [sys.executable, "-m", "benchmarks.instructions.workload", str(requests), device]
    done = subprocess.run(["valgrind", *options, *python], cwd=ROOT, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"benchmarks.instructions.workload failed under callgrind:\n{done.stderr[-3000:]}")
    found = {}
    for path in folder.glob("callgrind.out.*"):
        name = _case_of(path)
        if name:
            found[name] = path
    return found


def _case_of(path: Path) -> str:
    with path.open() as file:
        for line in file:
            if line.startswith("desc: Trigger: Client Request: "):
                return line.removeprefix("desc: Trigger: Client Request: ").strip()
            if line.startswith("fn="):
                break
    return ""


def per_call(files: dict[str, Path], calls: dict[str, int]) -> Counts:
    found = {}
    for name in calls:
        if name in files:
            sums = instructions(files[name])
            found[name] = {part: round(sums[part] / calls[name]) for part in (*PARTS, "other") if sums[part]}
    return found


def top(path: Path, calls: int, number: int) -> list[str]:
    """The functions with the most instructions, a line each."""
    most = Counter(functions(path)).most_common(number)
    return [f"{count / calls:10.1f}  {name[:150]}" for name, count in most]


def count(device: str, calls: dict[str, int], show: int = 0) -> Counts:
    """calls: by case, as the workload makes them. show: how many functions of each case to print."""
    with tempfile.TemporaryDirectory() as folder:
        files = measure(device, Path(folder))
        if show:
            for name, path in files.items():
                print(f"== {device}: {name}", *top(path, calls[name], show), sep="\n")
        return per_call(files, calls)
