# SPDX-License-Identifier: BSD-3-Clause
"""Architectures in eager mode on the device, compared with the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tools.comparison import TOLERANCE, difference, floating, missing_op, on_device
from tools.model_zoo import MODELS
from tools.pages import table
from torch_atalla import fallback, telemetry
from torch_atalla.device.energy import text

HEAD = "model | parameters | ops | launches | cycles | energy | error | first missing op"


class CountOps(TorchDispatchMode):
    """Counts the aten calls that reach the device's kernels; views among them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return function(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Result:
    name: str
    parameters: int
    ops: int = 0
    launches: int = 0
    cycles: int = 0
    joules: float = 0.0
    error: float = 0.0  # largest difference from the CPU, as a part of the output's largest value
    problem: str = ""  # the first op that is not native, or what else went wrong

    @property
    def is_wrong(self) -> bool:
        return self.error > TOLERANCE

    def cells(self) -> list[str]:
        counts = [f"{number:,}" for number in (self.ops, self.launches, self.cycles)]
        measured = [*counts, text(self.joules), f"{self.error:.1e}", ""]
        return [self.name, f"{self.parameters:,}", *([*[""] * 5, f"`{self.problem}`"] if self.problem else measured)]


@torch.no_grad()
def measure(name: str) -> Result:
    model, inputs = MODELS[name]()
    parameters = sum(p.numel() for p in model.parameters())
    expected = [x.clone() for x in floating(model(**inputs))]
    device_model, device_inputs = model.to("atalla"), on_device(inputs)
    torch.accelerator.synchronize()
    before = telemetry.counters()
    try:
        with fallback.mode("error"), CountOps() as ops:
            actual = floating(device_model(**device_inputs))
    except NotImplementedError as error:
        return Result(name, parameters, problem=missing_op(error))
    torch.accelerator.synchronize()
    after = telemetry.counters()
    assert len(actual) == len(expected) > 0
    worst = max(difference(a.cpu(), e) for a, e in zip(actual, expected))
    launches, cycles = after.launches - before.launches, after.cycles - before.cycles
    joules = after.energy.joules - before.energy.joules
    return Result(name, parameters, ops.calls, launches, cycles, joules, worst)


def lines(results: list[Result]) -> list[str]:
    right = sum(not result.problem and not result.is_wrong for result in results)
    count = (
        f"{right} of {len(results)} run wholly on the chip and match the CPU, with an error of at most {TOLERANCE:.0e}."
    )
    return [count, "", *table(HEAD, (result.cells() for result in results))]
