# SPDX-License-Identifier: BSD-3-Clause
"""Cost against size, with exponents: `python -m benchmarks.scale [--filter TEXT] [--plot FILE] [--write-docs]`.

Costs are elapsed time with one thread, the least of a few runs. Work on a stream's thread counts, too, so that the
machine should be idle.
--write-docs: the table and the plots of docs/reference/benchmarks.md. Needs matplotlib (requirements-ecosystem.txt),
16 GiB of memory, and 4 GiB of disk in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import torch_atalla
from tools.pages import row, table, write_section

from .. import machine
from ..report import seconds as shown_seconds
from . import decoder, device, processes, programs
from .plots import plot
from .sweep import Sweep, exponent

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, PLOT = DOCS / "reference/benchmarks.md", DOCS / "static/scale.svg"
SWEEPS = (*device.SWEEPS, *decoder.SWEEPS, *processes.SWEEPS, *programs.SWEEPS)  # memory is returned at the end


def cells(sweep: Sweep, costs: list[float]) -> tuple[str, ...]:
    shown = ", ".join(f"{size:,}: {shown_seconds(cost)}" for size, cost in zip(sweep.sizes, costs))
    return sweep.name, shown, f"{exponent(sweep.sizes, costs):.2f}", sweep.bound


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only sweeps whose name has the text")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write an SVG of the sweeps")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table and the plots of {PAGE.name}")
    args = parser.parse_args(argv)
    chosen = [sweep for sweep in SWEEPS if args.filter in sweep.name]
    if args.write_docs and args.filter:
        parser.error("--write-docs: expected all sweeps, without --filter")
    meanwhile = machine.OtherWork()
    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    torch.set_grad_enabled(False)
    found = []
    for sweep in chosen:
        found.append((sweep, [sweep.cost(size) for size in sweep.sizes]))
        print(row(cells(*found[-1])), flush=True)
    if args.plot:
        plot(found, args.plot)
    if args.write_docs:
        plot(found, PLOT)
        about = machine.describe() | {"other_work_cpus": round(meanwhile.cpus(), 2)}
        lines = ["![cost over size](../static/scale.svg)", ""]
        lines += table("cost of | time by n | exponent: | bound", (cells(*one) for one in found))
        lines += ["", decoder.summary(), ""]
        lines += [f"Measured with: {', '.join(f'{name} {value}' for name, value in about.items())}."]
        write_section(PAGE, "benchmarks.scale", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
