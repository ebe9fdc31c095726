# SPDX-License-Identifier: BSD-3-Clause
"""Measures torch.compile on the device against eager mode and against Inductor on the CPU, model by model.

    python -m benchmarks.compile [--only REGEX] [--no-peer] [--json FILE] [--write-docs]

Each model and task runs in a process of its own with an empty cache. Results are kept in the JSON file as they come; a
second run measures only what is missing. --write-docs writes docs/reference/benchmarks-compile.md from the file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.model_zoo import MODELS
from tools.vision_zoo import NETWORKS

from .compile_report import write_docs
from .machine import OtherWork, describe

ROOT = Path(__file__).resolve().parents[1]
TASKS = ("inference", "training")
BOUND = 1e-5
"""On the difference to eager mode, as a part of the greatest value of a tensor."""


def measure(name: str, task: str, peer: bool) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.compile_worker", name, task, *(["--peer"] if peer else [])]
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        work = OtherWork()
        done = subprocess.run(words, env=env, cwd=ROOT, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"{name}, {task}: {done.stderr.strip()[-2000:]}")
    return json.loads(lines[-1]) | {"other_work": work.cpus()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name this regular expression finds")
    parser.add_argument("--no-peer", action="store_true", help="leave out Inductor on the CPU")
    parser.add_argument("--json", type=Path, default=ROOT / "build/benchmarks-compile.json")
    parser.add_argument("--write-docs", action="store_true")
    args = parser.parse_args()
    record = json.loads(args.json.read_text()) if args.json.exists() else {"machine": describe(), "rows": []}
    known = {(row["name"], row["task"]): row for row in record["rows"]}
    for name in sorted(n for n in {**MODELS, **NETWORKS} if re.search(args.only, n)):
        for task in TASKS:
            if (name, task) in known and (args.no_peer or "peer_cold" in known[name, task]):
                continue
            row = known[name, task] = measure(name, task, not args.no_peer)
            record["rows"] = [known[key] for key in sorted(known)]
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(record, indent=1))
            peer = f", of Inductor's on the CPU {row['peer2'][2]:.2f}" if "peer2" in row else ""
            of_eager = f"{row['eager2'][2]:.2f} of eager mode's time{peer}"
            print(f"{name}, {task}: difference {row['difference']:.1e}, {of_eager}", flush=True)
    if args.write_docs:
        write_docs(record)
    return 0 if all(row["difference"] <= BOUND for row in record["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
