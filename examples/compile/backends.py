# SPDX-License-Identifier: BSD-3-Clause
"""The backends that torch.compile lists, and one model on each of them: time, and equality with eager mode.

python examples/compile/backends.py
"""

from __future__ import annotations

import time

import torch
from torch import nn

torch.manual_seed(0)
print("torch._dynamo.list_backends():", ", ".join(torch._dynamo.list_backends()))

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True).eval()
model, x = layer.to("atalla"), torch.randn(8, 32, 64).to("atalla")


def milliseconds(function: nn.Module) -> float:
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        function(x)
        torch.atalla.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 1e3 * best


with torch.no_grad():
    expected = model(x)
    print(f"{'eager mode':12} {milliseconds(model):6.2f} ms")
    for backend in ("eager", "aot_eager", "inductor", "atalla"):
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=backend)
        equal = "the same bits" if torch.equal(compiled(x), expected) else "other bits"
        print(f"{backend:12} {milliseconds(compiled):6.2f} ms, {equal}")
