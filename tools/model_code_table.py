# SPDX-License-Identifier: BSD-3-Clause
"""Saves the architectures of tools/model_zoo.py, converted to bfloat16, with chip code, and compares them with float32.

    python tools/model_code_table.py [--only REGEX] [--write]

--write puts the table into docs/reference/models.md. The exit status is 1 when a model has no code, or is farther from
float32 than PyTorch in bfloat16 on the CPU, by more than 0.0005 of the cosine.
"""

from __future__ import annotations

import copy
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.comparison import Tensors  # noqa: E402
from tools.model_aot_table import PAGE  # noqa: E402
from tools.model_zoo import MODELS  # noqa: E402
from tools.tables import on_device, options, parsed, replace_section  # noqa: E402
from torch_atalla import load_loadable, save_loadable  # noqa: E402
from torch_atalla.compiler.capture.narrow import to_bfloat16  # noqa: E402
from torch_atalla.compiler.file.code import cosine  # noqa: E402
from torch_atalla.compiler.program.layouts import same_layout  # noqa: E402
from torch_atalla.device.energy import text  # noqa: E402
from torch_atalla.loadable.code_machine import CodeMachine  # noqa: E402

BEGIN, END = "<!-- code: begin -->", "<!-- code: end -->"
HEAD = (
    "| architecture | calls | on the scalar core | packets run | cycles | reported | energy | of them scalar "
    "core | DMA bytes | cosine | CPU in bfloat16 |\n| --- |" + " ---: |" * 10
)
SLACK = 0.0005  # by which the cosine may be below the CPU's


@dataclass(frozen=True)
class Row:
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
    def is_right(self) -> bool:
        return not self.problem and self.cosine >= self.cpu - SLACK

    def __str__(self) -> str:
        if self.problem:
            return f"| {self.name} | {self.problem} |" + " |" * 9
        share = f"{self.scalar_cycles / self.cycles:.0%}"
        work = f"{self.calls} | {self.scalar_calls} | {self.packets:,} | {self.cycles:,} | {self.launch_cycles:,}"
        counts = f"{work} | {text(self.joules)} | {share} | {self.bytes:,}"
        return f"| {self.name} | {counts} | {self.cosine:.6f} | {self.cpu:.6f} |"


def smallest(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    return min(cosine(a.cpu(), b) for a, b in zip(found, expected, strict=True))


@torch.no_grad()
def measure(name: str) -> Row:
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
            return Row(name, problem=str(error).splitlines()[-1].strip())
        loaded = load_loadable(path, engine="isa")
        found = loaded(**on_device(narrow))
        cycles = loaded.stats.cycles  # of all cores; a profile is of one
        for mine, right in zip(tree_leaves(found), cpu, strict=True):
            if mine.shape != right.shape or not same_layout(tuple(mine.shape), mine.stride(), right.stride()):
                return Row(name, problem=f"{list(mine.shape)} with strides {mine.stride()}, expected {right.stride()}")
        profile = CodeMachine(path, [x for x in tree_leaves(narrow) if isinstance(x, torch.Tensor)]).profile()
    calls = profile.calls[1:-1]
    scalar = [call for call in calls if call.site.function.startswith("core_")]
    stats = profile.stats
    return Row(
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


def ratios(rows: list[Row]) -> str:
    """How executed cycles compare with those of the launches of the same file."""
    right = [row for row in rows if not row.problem]
    reported = [row.cycles / row.launch_cycles for row in right]
    return (
        f"\nExecuted cycles of {len(right)} architectures are {min(reported):.4f} to {max(reported):.4f} times the "
        "reported ones."
    )


def main() -> int:
    args = parsed(options(__doc__, PAGE))
    rows = []
    for name in MODELS:
        if re.search(args.only, name):
            rows.append(measure(name))
            print(rows[-1], flush=True)
    if args.write:
        replace_section(PAGE, BEGIN, END, [HEAD, *map(str, rows), ratios(rows)])
    return int(not all(row.is_right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
