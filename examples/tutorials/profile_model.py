# SPDX-License-Identifier: BSD-3-Clause
"""Profiling and speeding up a model: how to find the kernels with the most time, compile, and compare.

python examples/tutorials/profile_model.py

Cycles are simulated, so a comparison needs one run of each version.
"""

from collections import Counter

import torch
from torch.profiler import ProfilerActivity, profile

import torch_atalla

torch_atalla.fallback.mode("error")
torch.manual_seed(0)


class Block(torch.nn.Module):
    """A feed-forward block: (batch, 256) to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)
        self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))) * 0.5)


def cycles(function, *arguments) -> tuple[int, int]:
    """Launches and busy cycles of a call."""
    torch_atalla.telemetry.reset()
    function(*arguments)
    counters = torch_atalla.telemetry.counters()
    return counters.launches, counters.cycles


model, x = Block().eval().to("atalla"), torch.randn(64, 256, device="atalla")
with torch.no_grad():
    # 1. The profiler shows simulated time of each kernel.
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
        model(x)
    kernels = Counter()
    for event in profiler.events():
        for kernel in event.kernels:
            kernels[kernel.name] += kernel.duration
    total = sum(kernels.values())
    for name, time in kernels.most_common():
        print(f"{name:24} {100 * time / total:5.1f} %")

    # 2. The products dominate. Fusion saves the launches around them, and the traffic of their results.
    eager = cycles(model, x)
    compiled = torch.compile(model)
    compiled(x)  # compiles
    fused = cycles(compiled, x)
    print(f"eager    {eager[0]:3} launches {eager[1]:8,} cycles")
    print(f"compiled {fused[0]:3} launches {fused[1]:8,} cycles")

    # 3. bfloat16 halves the bytes of weights and activations.
    half, y = Block().eval().to("atalla", torch.bfloat16), x.bfloat16()
    compiled = torch.compile(half)
    compiled(y)
    narrow = cycles(compiled, y)
    print(f"bfloat16 {narrow[0]:3} launches {narrow[1]:8,} cycles")
