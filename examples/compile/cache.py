# SPDX-License-Identifier: BSD-3-Clause
"""The cache on disk: a second process compiles nothing, and artifacts carry programs to another machine.

python examples/compile/cache.py
"""

from __future__ import annotations

import os
import tempfile
import time

os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="compile-cache-")

import torch  # noqa: E402 (reads the environment)
from torch import nn  # noqa: E402

torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 4).eval().to("atalla")
x = torch.randn(8, 32, 64, device="atalla")


def first_call() -> float:
    torch._dynamo.reset()
    begin = time.perf_counter()
    with torch.no_grad():
        torch.compile(model)(x)
    return time.perf_counter() - begin


print(f"cold: {first_call():.2f} s")
print(f"warm: {first_call():.2f} s, with the programs from the disk")
data, _ = torch.compiler.save_cache_artifacts()
print(f"torch.compiler.save_cache_artifacts: {len(data) / 1024:.0f} KiB")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="compile-cache-")
print("loaded elsewhere:", ", ".join(torch.compiler.load_cache_artifacts(data).artifacts))
print(f"warm there: {first_call():.2f} s")
