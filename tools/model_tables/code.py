# SPDX-License-Identifier: BSD-3-Clause
"""Architectures in bfloat16 with chip code, compared with float32."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from tools.comparison import Tensors, on_device
from tools.model_zoo import MODELS
from tools.pages import table
from torch_atalla import load_loadable, save_loadable
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.file.code import cosine
from torch_atalla.compiler.program.layouts import same_layout
from torch_atalla.device.energy import text
from torch_atalla.loadable.code_machine import CodeMachine
from torch_atalla.testing import tensors

HEAD = (
    "architecture | calls: | on the scalar core: | packets run: | cycles: | reported: | energy: | of them scalar core: "
    "| DMA bytes: | cosine: | CPU in bfloat16:"
)
SLACK = 0.0005  # by which the cosine may be below the CPU's


@dataclass(frozen=True)
class Result:
    name: str
    calls: int = 0
    scalar_calls: int = 0
    packets: int = 0
    cycles: int = 0
    launch_cycles: int = 0  # that the functional engine reports for the same file
    joules: float = 0.0
    scalar_cycles: int = 0
    bytes: int = 0
    cosine: float = 0.0
    cpu: float = 0.0
    problem: str = ""

    @property
    def is_wrong(self) -> bool:
        return bool(self.problem) or self.cosine < self.cpu - SLACK

    def cells(self) -> list[str]:
        if self.problem:
            return [self.name, self.problem, *[""] * 9]
        share = f"{self.scalar_cycles / self.cycles:.0%}"
        work = [
            str(self.calls),
            str(self.scalar_calls),
            f"{self.packets:,}",
            f"{self.cycles:,}",
            f"{self.launch_cycles:,}",
        ]
        counts = [*work, text(self.joules), share, f"{self.bytes:,}"]
        return [self.name, *counts, f"{self.cosine:.6f}", f"{self.cpu:.6f}"]


def smallest(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    return min(cosine(a.cpu(), b) for a, b in zip(found, expected, strict=True))


@torch.no_grad()
def measure(name: str) -> Result:
    model, inputs = MODELS[name]()
    module = Tensors(model)
    expected = module(**inputs)
    program = torch.export.export(module, (), inputs, strict=False)
    narrow = {key: to_bfloat16(value) for key, value in inputs.items()}
    cpu = copy.deepcopy(module).to(torch.bfloat16)(**narrow)  # the program shares the parameters
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atl"
        try:
            report = save_loadable(program, path, engine="isa", convert="bfloat16", fallback="error")
        except NotImplementedError as error:
            return Result(name, problem=str(error).splitlines()[-1].strip())
        loaded = load_loadable(path, engine="isa")
        found = loaded(**on_device(narrow))
        cycles = loaded.stats.cycles  # of all cores; a profile is of one
        for mine, right in zip(tree_leaves(found), cpu, strict=True):
            if mine.shape != right.shape or not same_layout(tuple(mine.shape), mine.stride(), right.stride()):
                return Result(
                    name, problem=f"{list(mine.shape)} with strides {mine.stride()}, expected {right.stride()}"
                )
        profile = CodeMachine(path, tensors(narrow)).profile()
    calls = profile.calls[1:-1]
    scalar = [call for call in calls if call.site.function.startswith("core_")]
    stats = profile.stats
    return Result(
        name,
        len(calls),
        len(scalar),
        stats.packets,
        cycles,
        report.estimate_cycles,
        stats.energy.joules,
        sum(call.cycles for call in scalar),
        stats.dram_bytes_read + stats.dram_bytes_written,
        smallest(tree_leaves(found), expected),
        smallest(cpu, expected),
    )


def lines(results: list[Result]) -> list[str]:
    """The table, and how executed cycles compare with those of the launches of the same file."""
    ratios = [result.cycles / result.launch_cycles for result in results if not result.problem]
    span = f"{min(ratios):.4f} to {max(ratios):.4f}"
    text = f"Executed cycles of {len(ratios)} architectures are {span} times the reported ones."
    return [*table(HEAD, (result.cells() for result in results)), "", text]
