# SPDX-License-Identifier: BSD-3-Clause
"""Loading a loadable beside a copy of as many bytes as its weights have, in turns in one fresh process.

python -m benchmarks.loadable.loading MODEL.atl BYTES ROUNDS    -> one line of JSON, for benchmarks/loadable/compare.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ..harness import Spread
from .call import copy_to_fresh_memory, load_once, without_torch
from .processes import environment


@dataclass
class Loading:
    """Seconds, and bytes. Cold: the first load of the process, which opens the device."""

    weight_bytes: int
    cold: float
    load: Spread
    copy: Spread
    over_copy: Spread  # load minus copy, round by round
    without_torch: Spread  # the load of atalla-run, a fresh process each time
    other_bytes: float  # of atalla-run's peak: neither weights nor planned temporaries nor inputs and outputs


def rounds_of(path: Path, size: int, rounds: int) -> dict[str, list[float]]:
    """Of this process, which has loaded nothing yet: the first load, then loads and copies in turns."""
    cold = load_once(path)
    loads, copies = [], []
    for _ in range(rounds):
        loads.append(load_once(path))
        copies.append(copy_to_fresh_memory(size))
    return {"cold": [cold], "load": loads, "copy": copies}


def measure(path: Path, rounds: int) -> Loading:
    alone = [without_torch(path, "--repeat", "5") for _ in range(rounds)]
    size = int(alone[0]["weight_bytes"])
    command = [sys.executable, "-P", "-m", "benchmarks.loadable.loading", str(path), str(size), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(1), check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    known = ("weight_bytes", "arena_bytes", "scratchpad_bytes", "io_bytes")
    others = [x["peak_bytes"] - sum(x[name] for name in known) for x in alone]
    return Loading(
        size,
        found["cold"][0],
        Spread.of(found["load"]),
        Spread.of(found["copy"]),
        Spread.of([load - copy for load, copy in zip(found["load"], found["copy"])]),
        Spread.of([x["load_ms"] / 1e3 for x in alone]),
        Spread.of(others).median,
    )


def table(found: dict[str, Loading]) -> str:
    """found: by model."""

    def shown(spread: Spread) -> str:
        return f"{spread.median * 1e3:.2f} ({spread.low * 1e3:.2f} to {spread.high * 1e3:.2f})"

    head = ["model", "weights MB", "cold load ms", "load ms", "copy ms", "load minus copy ms", "torch-free load ms"]
    head.append("torch-free peak minus weights, plan, inputs and outputs, MB")
    lines = [
        "### Loading",
        "",
        "`atalla`, one thread: loads and copies of as many bytes as the weights have, in turns. Median (quartiles).",
        "",
        f"| {' | '.join(head)} |",
        "| --- |" + " ---: |" * (len(head) - 1),
    ]
    for model, x in found.items():
        parts = [model, f"{x.weight_bytes / 1e6:.2f}", f"{x.cold * 1e3:.1f}", shown(x.load), shown(x.copy)]
        parts += [shown(x.over_copy), shown(x.without_torch), f"{x.other_bytes / 1e6:.1f}"]
        lines.append(f"| {' | '.join(parts)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(json.dumps(rounds_of(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
