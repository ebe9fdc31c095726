# SPDX-License-Identifier: BSD-3-Clause
"""One commit in one process: CPU seconds of the cases, on demand.

python -m benchmarks.comparison.worker [FILTER]     -> the names as one line of JSON; then, for each line
{"case": name, "seconds": s}, CPU seconds per call of as many calls as fill s
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable

import torch

from ..cases import cases
from ..harness import threads
from ..instructions.workload import CASES

Make = Callable[[str], Callable[[], object]]


def measured() -> dict[str, Make]:
    """The hot paths, and the throughput of single ops."""
    found: dict[str, Make] = {case.name: case.make for case in CASES}
    found |= {f"{case.name} {case.size}": case.make for case in cases() if case.group == "throughput"}
    del found["ISA engine, 3200 packets"]  # a machine runs once
    return found


def seconds_per_call(call: Callable[[], object], seconds: float) -> float:
    """CPU time of all threads of the process."""
    calls, used = 1, 0.0
    while True:
        start = time.process_time()
        for _ in range(calls):
            call()
        torch.atalla.synchronize()
        used = time.process_time() - start
        if used >= seconds:
            return used / calls
        calls = max(calls + 1, int(calls * min(1.1 * seconds / max(used, 1e-9), 100)))


def main() -> None:
    text = sys.argv[1] if len(sys.argv) > 1 else ""
    makes = {name: make for name, make in measured().items() if text in name}
    torch.set_grad_enabled(False)
    gc.disable()
    calls = {}
    with threads(1):
        print(json.dumps(list(makes)), flush=True)
        for line in sys.stdin:
            question = json.loads(line)
            name = question["case"]
            if name not in calls:
                calls[name] = makes[name]("atalla")
                calls[name]()
            print(seconds_per_call(calls[name], question["seconds"]), flush=True)


if __name__ == "__main__":
    main()
