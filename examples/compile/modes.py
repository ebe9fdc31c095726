# SPDX-License-Identifier: BSD-3-Clause
"""Modes and options: compile time and simulated cycles of each mode.

reduce-overhead and max-autotune replay a device graph. That saves the host's work between the programs and eager nodes
of a graph; it costs a copy of the inputs and of the results, which is more than it saves where, as here, all is one
program. max-autotune-no-cudagraphs searches without it.

python examples/compile/modes.py
"""

from __future__ import annotations

import time

import torch
from torch import nn

from torch_atalla import telemetry

torch.manual_seed(0)
model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval().to("atalla")
x = torch.randn(8, 32, 64, device="atalla")


def measured(function) -> str:
    function(x)
    torch.atalla.synchronize()
    before = telemetry.clock()
    function(x)
    torch.atalla.synchronize()
    cycles = telemetry.clock() - before
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        function(x)
        torch.atalla.synchronize()
        best = min(best, time.perf_counter() - begin)
    return f"{1e3 * best:5.2f} ms, {cycles:7,} cycles"


with torch.no_grad():
    print(f"{'eager mode':28} {measured(model)}")
    for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        torch._dynamo.reset()
        begin = time.perf_counter()
        compiled = torch.compile(model, mode=mode)
        compiled(x)
        print(f"{mode:28} {measured(compiled)}, compiled in {time.perf_counter() - begin:.1f} s")
    for options in ({"optimize": "none"}, {"optimize": "fast"}):
        torch._dynamo.reset()
        print(f"{options!s:28} {measured(torch.compile(model, backend='atalla', options=options))}")
try:
    torch.compile(model, backend="atalla", options={"optimise": "fast"})(x)
except Exception as error:
    print(str(error).strip().splitlines()[1 if "raised" in str(error).splitlines()[0] else 0])
