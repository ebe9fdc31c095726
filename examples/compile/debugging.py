# SPDX-License-Identifier: BSD-3-Clause
"""Looking inside: the folder of TORCH_COMPILE_DEBUG, the artifacts of TORCH_LOGS, and regions in torch.profiler.

python examples/compile/debugging.py
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

folder = tempfile.mkdtemp(prefix="compile-debug-")
os.environ.update(TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=folder)

import torch  # noqa: E402 (reads the environment)
from torch.profiler import ProfilerActivity, profile  # noqa: E402


def function(x, weight):
    return torch.nn.functional.gelu(x @ weight).sum(-1)


x, weight = torch.randn(64, 64, device="atalla"), torch.randn(64, 64, device="atalla")
torch._logging.set_logs(fusion=True, schedule=True)  # what TORCH_LOGS=fusion,schedule does
compiled = torch.compile(function, backend="atalla")
compiled(x, weight)
torch._logging.set_logs()

print("files of TORCH_COMPILE_DEBUG=1:")
for path in sorted(Path(folder).rglob("*.*")):
    if path.parent.name.startswith("region") or path.suffix in (".py", ".svg") and "region" not in str(path):
        print("  ", path.name)

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
    compiled(x, weight)
    torch.atalla.synchronize()
print("in torch.profiler:")
for event in profiler.key_averages():
    if event.key.startswith("Torch-Compiled"):
        print(f"   {event.key}: {event.device_time_total:.1f} us on the device")
