# SPDX-License-Identifier: BSD-3-Clause
"""The same work in several processes at the same time, each with a simulated chip of its own."""

from __future__ import annotations

import subprocess
import sys

from .sweep import Sweep

WORK = """
import sys, time, torch, torch_atalla
torch.set_num_threads(1); torch_atalla.chip.set_num_threads(1); torch.set_grad_enabled(False)
x = torch.ones(64, 64, device="atalla")
y = x @ x + x
print("ready", flush=True)
sys.stdin.readline()
start = time.process_time()
for _ in range(3000):
    y = x @ x + x
assert y[0, 0].item() == 65
print(time.process_time() - start, flush=True)
"""


def processes(number: int) -> float:
    """CPU seconds of all of them for 6,000 launches each."""
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen([sys.executable, "-c", WORK], stdin=pipe, stdout=pipe, text=True) for _ in range(number)
    ]
    for one in started:
        assert one.stdout is not None and one.stdout.readline().strip() == "ready"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    return sum(float(one.communicate()[0]) for one in started)


SWEEPS = (
    Sweep(
        "6,000 launches in each of n processes, together",
        (1, 2, 3, 4, 6, 8),
        processes,
        "Processes share only the host's cores and caches.",
    ),
)
