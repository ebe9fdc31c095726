# SPDX-License-Identifier: BSD-3-Clause
"""Saves the architectures of tools/model_zoo.py as loadables, fallback forbidden, and compares them with eager mode.

    python tools/model_aot_table.py [--only REGEX] [--optimize LEVEL] [--write]

--write puts the table into docs/reference/models.md. The exit status is 1 when a model that is saved differs from eager
mode, or its launches from those of torch.compile.
"""

from __future__ import annotations

import gc
import re
import statistics
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.comparison import Tensors, difference  # noqa: E402
from tools.model_zoo import MODELS  # noqa: E402
from tools.same_launches import both, differences  # noqa: E402
from tools.tables import on_device, options, parsed, replace_section  # noqa: E402
from torch_atalla import load_loadable, save_loadable  # noqa: E402
from torch_atalla.compiler import UnsupportedOpsError  # noqa: E402
from torch_atalla.compiler.capture.narrow import to_bfloat16  # noqa: E402
from torch_atalla.compiler.file.save import Level  # noqa: E402
from torch_atalla.device.energy import text  # noqa: E402
from torch_atalla.loadable.report import LoadableReport  # noqa: E402

device: Any = torch.get_device_module("atalla")
PAGE = ROOT / "docs/reference/models.md"
BEGIN, END = "<!-- loadables: begin -->", "<!-- loadables: end -->"
HEAD = (
    "| architecture | file, bytes | weights, bytes | launches | cycles | energy | ms | peak on the device, bytes | "
    "planned | least possible | as eager mode | compiled, cycles | weights as inputs |\n"
    "| --- |" + " ---: |" * 9 + " --- | ---: | --- |"
)


@dataclass(frozen=True)
class Result:
    name: str
    problem: str = ""
    report: LoadableReport | None = None
    milliseconds: float = 0.0
    peak: int = 0
    equal: bool = False
    error: float = 0.0
    compiled: int = 0
    differ: tuple[str, ...] = ()  # launches of a file whose weights are inputs, in float32 and bfloat16

    def row(self) -> str:
        if self.report is None:
            return f"| {self.name} | {self.problem} |" + " |" * 11
        report = self.report
        same = "the same bits" if self.equal else f"{self.error:.1e}"
        numbers = (report.file_bytes, report.weight_bytes, report.launches, report.estimate_cycles)
        memory = (self.peak, report.arena_bytes, report.arena_lower_bound)
        cells = [f"{number:,}" for number in numbers] + [text(sum(report.method_joules)), f"{self.milliseconds:.2f}"]
        cells += [f"{n:,}" for n in memory]
        launches = "; ".join(self.differ) or "the same launches"
        return f"| {self.name} | " + " | ".join(cells) + f" | {same} | {self.compiled:,} | {launches} |"


@torch.no_grad()
def measure(name: str, optimize: Level) -> Result:
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
        # What the program holds besides its weights, both in whole blocks of the allocator: the arena.
        peak = device.memory_allocated() - before - rounded(weights_section(path))
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
    milliseconds = statistics.median(times) * 1e3
    return Result(name, "", report, milliseconds, peak, equal, error, compiled.cycles, differ)


def weights_section(path: Path) -> int:
    """Bytes of the section, of docs/reference/loadable-format.md."""
    data = path.read_bytes()
    begin, count, stride = struct.unpack_from("<QII", data, 32)
    for i in range(count):
        kind, _, _, length = struct.unpack_from("<IIQQ", data, begin + i * stride)
        if kind == 16:
            return length
    return 0


def rounded(nbytes: int) -> int:
    return -(-nbytes // 512) * 512


def main() -> int:
    parser = options(__doc__, PAGE)
    parser.add_argument("--optimize", default="exact")
    args = parsed(parser)
    results = []
    for name in MODELS:
        if re.search(args.only, name):
            results.append(measure(name, args.optimize))
            print(results[-1].row(), flush=True)
    if args.write:
        replace_section(PAGE, BEGIN, END, [HEAD, *(result.row() for result in results)])
    tolerance = 0.0 if args.optimize != "fast" else 1e-3
    right = [result.report is None or result.equal or result.error <= tolerance for result in results]
    return int(not all(right) or any(result.differ for result in results))


if __name__ == "__main__":
    sys.exit(main())
