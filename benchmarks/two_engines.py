# SPDX-License-Identifier: BSD-3-Clause
"""Analytic beside executed cycles on several chips: `python -m benchmarks.two_engines [--write]`.

Executed cycles are the ISA engine's for generated code, analytic ones those of the timing model for the launches that
the code makes: the kernels of benchmarks.isa_codegen, and the networks of its table in bfloat16. Each chip
is the built-in one with another memory, or with more cores, in a process of its own. Executed cycles of kernels are the
mean of seven distances between operands. --write: docs/reference/two-engines.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch_atalla.explorer.space import with_values

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/two-engines.md"
MODELS = ROOT / "docs/reference/models.md"
MESH = {"core.count": 4, "core.scratchpads": "own", "network.topology": "mesh", "network.columns": 2}
DETAILS = {"scratchpad.ports": 1, "instruction_cache.bytes": 131_072, "data_cache.bytes": 4096}
# Of the structure that csrc/sim/rtl/systolic_tile.sv describes, whose 45 cycles for 32 x 32 are 1 + 32 + 7 + 5.
ARRAY64 = {"array.rows": 64, "array.columns": 64, "array.latency_cycles": 1 + 64 + 15 + 5}
CHIPS: dict[str, tuple[str, dict[str, Any]]] = {
    "constant": ("the default: two cycles per beat", {}),
    "ddr4_3200": ("DDR4-3200", {"dram.preset": "ddr4_3200"}),
    "lpddr4_3200": ("LPDDR4-3200", {"dram.preset": "lpddr4_3200"}),
    "lpddr5_6400": ("LPDDR5-6400", {"dram.preset": "lpddr5_6400"}),
    "hbm2_2000": ("HBM2-2000", {"dram.preset": "hbm2_2000"}),
    "array64": ("an array of 64 x 64, LPDDR5-6400", ARRAY64 | {"dram.preset": "lpddr5_6400"}),
    "mesh": ("four cores on a mesh of two columns, LPDDR5-6400", MESH | {"dram.preset": "lpddr5_6400"}),
    "details": ("the default, with one port per scratchpad, 128 KiB of instruction and 4 KiB of data cache", DETAILS),
}
Row = tuple[str, int, int]  # what ran, executed and analytic cycles


def kernels(only: Sequence[str] = ()) -> list[Row]:
    """only: beginnings of names; all if there are none."""
    from .isa_cases import cases
    from .isa_codegen import cycles

    return [(case.name, *cycles(case)) for case in cases() if not only or case.name.startswith(tuple(only))]


def networks(only: Sequence[str] = ()) -> list[Row]:
    """Their code, and the timing model of the launches that the code joins, keeps and divides. only: as for kernels."""
    import torch

    from torch_atalla.compiler.capture.narrow import to_bfloat16
    from torch_atalla.compiler.targets.chip.build import compile_model
    from torch_atalla.compiler.targets.chip.estimate import estimates
    from torch_atalla.compiler.targets.functional.pipeline import device_chip

    from .isa_codegen import executed, profiled

    sys.path.insert(0, str(ROOT / "test/support"))
    import isa_networks

    chip, rows = device_chip(), []
    for name, make in isa_networks.NETWORKS.items():
        if only and not name.startswith(tuple(only)):
            continue
        torch.manual_seed(0)
        model, args = make()
        network = compile_model(model, args, convert=True, chip=chip).network
        given = [to_bfloat16(x) for x in args]
        if chip.instruction_cache.bytes:
            stats, ran = profiled(network, given)
        else:
            stats, ran = executed(network, given), None
        analytic = sum(cycles or 0 for cycles in estimates(network, chip, ran))
        rows.append((name.partition(" (")[0], stats.cycles, analytic))
    return rows


def on_chip(name: str, only: Sequence[str] = ()) -> dict[str, list[Row]]:
    """Both lists, by another process. only: beginnings of names; all if there are none."""
    text = with_values((ROOT / "csrc/sim/chip.toml").read_text(), CHIPS[name][1])
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(text)
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.two_engines", "--here", *only]
        environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def table(found: dict[str, list[Row]]) -> str:
    """A row for what ran: executed cycles on each chip, and how far the analytic ones are from them."""
    lines = [["", *found], ["---"] * (1 + len(found))]
    for same in zip(*found.values(), strict=True):
        cells = (f"{executed:,} ({analytic / executed - 1:+.0%})" for _, executed, analytic in same)
        lines.append([same[0][0], *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def largest(found: dict[str, list[Row]], within: float) -> str:
    """For each chip, the largest deviation and how many are within the limit."""
    parts = []
    for chip, rows in found.items():
        deviations = [analytic / executed - 1 for _, executed, analytic in rows]
        close = sum(abs(x) <= within for x in deviations)
        parts.append(f"`{chip}`: {close} of {len(rows)}, {min(deviations):+.0%} to {max(deviations):+.0%}")
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_engines", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/reference/two-engines.md")
    parser.add_argument("--here", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here is not None:
        print(json.dumps({"kernels": kernels(args.here), "networks": networks(args.here)}))
        return
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = dict(zip(CHIPS, threads.map(on_chip, CHIPS)))
    of_kernels = {chip: rows["kernels"] for chip, rows in found.items()}
    of_networks = {chip: rows["networks"] for chip, rows in found.items()}
    memories = "\n".join(f"- `{chip}`: {text}" for chip, (text, _) in CHIPS.items())
    text = f"""# Analytic and executed cycles

This page compares two numbers for the same work: the cycles of the timing model for the launches *of the
generated code*, and the cycles that the ISA engine needs to execute this code. It is not a comparison of the
two engines on one file: there the functional engine charges what the code takes
([timing.md](../concepts/timing.md#launches-that-have-code)). The model counts for launches without code. It
knows neither the copies nor the layout of weights that the code has of its own.

It is generated by `python -m benchmarks.two_engines --write`. [timing.md](../concepts/timing.md) explains the model and
its limits. The chips have these memories and cores:

{memories}

## Kernels

Executed cycles are the mean of seven distances between operands, on which they depend in a DRAM with banks. On the
mesh, code and launches take as many cores as the compiler gives them. Within 10 %: {largest(of_kernels, 0.1)}.

{table(of_kernels)}

## Networks

In bfloat16. The analytic cycles are the sum over the launches of the code, with the ops that these join, the operands
that they keep in scratchpads and the cores that share them. Within 5 %:
{largest(of_networks, 0.05)}.

{table(of_networks)}
"""
    print(text)
    if args.write:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
