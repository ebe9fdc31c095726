# SPDX-License-Identifier: BSD-3-Clause
"""Memory: memory of a compiled model and of eager mode, forward and in a training step.

python examples/compile/memory.py
"""

from __future__ import annotations

import functools

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.GELU()))).to("atalla")
x = torch.randn(512, 256, device="atalla")


def peak(step) -> float:
    step()
    torch.atalla.synchronize()
    torch.atalla.reset_peak_memory_stats()
    before = torch.atalla.memory_allocated()
    step()
    torch.atalla.synchronize()
    return (torch.atalla.max_memory_allocated() - before) / 2**20


def infer(function) -> None:
    with torch.no_grad():
        function(x)


def train(function) -> None:
    function(x).square().mean().backward()
    model.zero_grad()


compiled = torch.compile(model, backend="atalla")
for name, step in (("inference", infer), ("training step", train)):
    eager, here = (peak(functools.partial(step, function)) for function in (model, compiled))
    print(f"{name:14} above what stays: eager {eager:5.1f} MiB, compiled {here:5.1f} MiB")
print(f"in use afterwards, with the arenas of the programs: {torch.atalla.memory_allocated() / 2**20:.1f} MiB")
