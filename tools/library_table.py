# SPDX-License-Identifier: BSD-3-Clause
"""Runs examples of other libraries (benchmarks/libraries) on the device, fallback forbidden, and compares with the CPU.

    python tools/library_table.py [--only REGEX] [--write]

--write puts the table into docs/reference/libraries.md. It needs requirements-ecosystem.txt. The exit status is 1 when
results of a library differ from the CPU's, or an op is missing.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import logging
import os
import pkgutil
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [str(ROOT), *(p for p in sys.path if Path(p or ".").resolve() != ROOT / "tools")]

from benchmarks import libraries  # noqa: E402
from tools.comparison import TOLERANCE, difference, measured, missing_op, options, parsed  # noqa: E402
from tools.pages import DOCS, row, table, write_section  # noqa: E402
from torch_atalla import chip, fallback, telemetry  # noqa: E402

PAGE = DOCS / "reference/libraries.md"
HEAD = "library | version | what was run | as on the CPU | launches: | error: | tolerance: | device: | CPU: | ratio:"
NAMES = sorted(module.name for module in pkgutil.iter_modules(libraries.__path__))


@dataclass(frozen=True)
class Result:
    name: str  # the distribution's
    version: str
    example: str  # what was run
    launches: int = 0
    error: float = 0.0  # largest difference from the CPU, as a part of the tensor's largest value
    tolerance: float = TOLERANCE
    milliseconds: float = 0.0
    milliseconds_on_cpu: float = 0.0
    missing: str = ""  # the op that has no kernel, or what else went wrong

    @property
    def right(self) -> bool:
        return not self.missing and self.error <= self.tolerance

    def cells(self) -> list[str]:
        facts = [self.name, self.version, self.example]
        if self.missing:
            return [*facts, f"no: `{self.missing}`", *[""] * 6]
        ratio = self.milliseconds / max(self.milliseconds_on_cpu, 1e-9)
        times = [f"{self.milliseconds:,.0f}", f"{self.milliseconds_on_cpu:,.0f}", f"{ratio:.1f}"]
        numbers = [f"{self.launches:,}", f"{self.error:.1e}", f"{self.tolerance:.0e}"]
        return [*facts, "yes" if self.right else "no", *numbers, *times]


def load(name: str) -> ModuleType:
    """The module of a library's example; ImportError if the library, or one that it needs, is not installed."""
    return importlib.import_module(f"benchmarks.libraries.{name}")


def run_once(example: ModuleType, device: str) -> tuple[list[torch.Tensor], float]:
    """Results on the CPU, and milliseconds until they are there. The seed is the same in each run."""
    torch.manual_seed(0)
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        results = [x.detach().cpu() for x in example.run(device)]
    return results, 1e3 * (time.perf_counter() - start)


def run(name: str, repeats: int = 1) -> Result:
    """Run a library's example on both devices, once and then `repeats` times. Times are those of the fastest repeat."""
    example = load(name)
    version = importlib.metadata.version(example.DISTRIBUTION)
    assert example.__doc__
    facts = (example.DISTRIBUTION, version, " ".join(example.__doc__.split()))
    tolerance = getattr(example, "TOLERANCE", TOLERANCE)
    expected, _ = run_once(example, "cpu")
    on_cpu = min(run_once(example, "cpu")[1] for _ in range(repeats))
    before = telemetry.counters().launches
    try:
        with fallback.mode("error"):
            found, _ = run_once(example, "atalla")
            launches = telemetry.counters().launches - before
            later = [run_once(example, "atalla") for _ in range(repeats)]
    except NotImplementedError as error:
        return Result(*facts, missing=missing_op(error))
    every = [found, *(results for results, _ in later)]
    assert expected and all(len(results) == len(expected) for results in every)
    worst = max(difference(x, y) for results in every for x, y in zip(results, expected))
    return Result(*facts, launches, worst, tolerance, min(spent for _, spent in later), on_cpu)


def lines(results: list[Result]) -> list[str]:
    right = sum(result.right for result in results)
    count = f"{right} of {len(results)} examples run wholly on the chip and match the CPU."
    return [count, "", *table(HEAD, (result.cells() for result in results))]


def main(argv: list[str] | None = None) -> int:
    args = parsed(options(__doc__, PAGE), argv)
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    chip.set_num_threads(1)
    results = measured(NAMES, args.only, partial(run, repeats=3), lambda result: row(result.cells()))
    print(lines(results)[0])
    if args.write:
        write_section(PAGE, "libraries", lines(results))
    return int(not all(r.right for r in results))


if __name__ == "__main__":
    sys.exit(main())
