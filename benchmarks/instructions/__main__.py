# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per call of the hot paths, compared with benchmarks/instructions/record.json.

    python -m benchmarks.instructions              # fails if a count grew by more than 2 %
    python -m benchmarks.instructions --record     # counts anew, and writes record.json
    python -m benchmarks.instructions --cpu        # also PyTorch's CPU device, all instructions of both
    python -m benchmarks.instructions --functions 20   # also the functions with the most instructions

callgrind counts them, so that neither the clock nor other work on the machine matters.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys

from . import counts
from .record import RECORD, problems, recorded_elsewhere
from .workload import CASES


def tools() -> dict[str, str]:
    """Whatever decides which instructions a source becomes."""
    import torch

    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    return {"g++": compiler, "torch": torch.__version__, "machine": platform.machine()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    parser.add_argument("--cpu", action="store_true", help="compare with PyTorch's CPU device")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="print the N most costly functions")
    args = parser.parse_args(argv)
    reason = counts.missing()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"tools": {}, "counts": {}}
    if not reason and not (args.record or args.cpu):
        reason = recorded_elsewhere(record, tools())
    if reason:
        print(f"instruction counts: skipped: {reason}")
        return 0
    counts.build()
    calls = {case.name: case.calls for case in CASES}
    found = counts.count("atalla", calls, args.functions)
    for name, parts in found.items():
        print(f"{name:28}", ", ".join(f"{part} {number:,}" for part, number in parts.items()))
    if args.cpu:
        on_cpu = counts.count("cpu", calls, args.functions)
        for name, parts in on_cpu.items():
            ours, theirs = sum(found[name].values()), sum(parts.values())
            print(f"{name:28} all instructions: atalla {ours:,}, CPU {theirs:,}, ratio {ours / theirs:.2f}")
    if args.record:
        kept = {name: {part: parts[part] for part in parts if part != "other"} for name, parts in found.items()}
        RECORD.write_text(json.dumps({"tools": tools(), "counts": kept}, indent=1) + "\n")
        return 0
    grown = problems(record["counts"], found)
    print("\n".join(grown) or f"instruction counts: {len(found)} cases within 2 % of {RECORD.name}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
