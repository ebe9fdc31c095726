# SPDX-License-Identifier: BSD-3-Clause
"""Architectures as loadables, compared with eager mode, and their launches with those of torch.compile."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tools.comparison import Tensors, difference, on_device
from tools.model_zoo import MODELS
from tools.pages import table
from tools.same_launches import both, differences
from torch_atalla import load_loadable, save_loadable
from torch_atalla.compiler import UnsupportedOpsError
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.file.save import Level
from torch_atalla.device.energy import text
from torch_atalla.loadable.file.container import Container
from torch_atalla.loadable.file.format import Section
from torch_atalla.loadable.report import LoadableReport

device: Any = torch.get_device_module("atalla")
HEAD = (
    "architecture | file, bytes: | weights, bytes: | launches: | cycles: | energy: | ms: | peak on the device, bytes: "
    "| planned: | least possible: | as eager mode | compiled, cycles: | weights as inputs"
)


@dataclass(frozen=True)
class Result:
    name: str
    problem: str = ""
    report: LoadableReport | None = None
    milliseconds: float = 0.0
    peak: int = 0
    equal: bool = True
    error: float = 0.0
    compiled: int = 0
    tolerance: float = 0.0  # of the error, where bits differ
    differ: tuple[str, ...] = ()  # launches of a file whose weights are inputs, in float32 and bfloat16

    @property
    def is_wrong(self) -> bool:
        return not (self.equal or self.error <= self.tolerance) or bool(self.differ)

    def cells(self) -> list[str]:
        if self.report is None:
            return [self.name, self.problem, *[""] * 11]
        report = self.report
        same = "the same bits" if self.equal else f"{self.error:.1e}"
        numbers = (report.file_bytes, report.weight_bytes, report.launches, report.estimate_cycles)
        memory = (self.peak, report.arena_bytes, report.arena_lower_bound)
        cells = [f"{number:,}" for number in numbers] + [text(sum(report.method_joules)), f"{self.milliseconds:.2f}"]
        cells += [f"{n:,}" for n in memory]
        launches = "; ".join(self.differ) or "the same launches"
        return [self.name, *cells, same, f"{self.compiled:,}", launches]


@torch.no_grad()
def measure(name: str, optimize: Level = "exact") -> Result:
    model, inputs = MODELS[name]()
    module = Tensors(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atl"
        program = torch.export.export(module, (), inputs, strict=False)
        try:
            report = save_loadable(program, path, fallback="error", optimize=optimize)
        except UnsupportedOpsError as refused:
            first = str(refused).splitlines()[1].strip()
            return Result(name, first.partition(", node")[0])
        given = on_device(inputs)
        gc.collect()
        device.synchronize()
        before = device.memory_allocated()
        loaded = load_loadable(path, device="atalla")
        # The arena: memory of the program minus its weights, both in whole blocks of the allocator.
        peak = (
            device.memory_allocated()
            - before
            - rounded(len(Container.read(path.read_bytes()).find(Section.WEIGHTS) or b""))
        )
        found = tree_leaves(loaded(**given))
        expected = module.to("atalla")(**given)
        equal = all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(found, expected, strict=True))
        error = max(difference(a.cpu(), b.cpu()) for a, b in zip(found, expected, strict=True))
        times = []
        for _ in range(7):
            start = time.perf_counter()
            loaded(**given)
            device.synchronize()
            times.append(time.perf_counter() - start)
    export = partial(torch.export.export, strict=False)
    saved, compiled = both(module.cpu(), (), inputs, export)
    narrow = both(module.bfloat16(), (), {name: to_bfloat16(value) for name, value in inputs.items()}, export)
    differ = (*differences(saved, compiled), *differences(*narrow))
    tolerance = 1e-3 if optimize == "fast" else 0.0
    milliseconds = statistics.median(times) * 1e3
    return Result(name, "", report, milliseconds, peak, equal, error, compiled.cycles, tolerance, differ)


def rounded(nbytes: int) -> int:
    return -(-nbytes // 512) * 512


def lines(results: list[Result]) -> list[str]:
    return table(HEAD, (result.cells() for result in results))
