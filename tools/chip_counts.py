# SPDX-License-Identifier: BSD-3-Clause
"""What a vector of 32 elements costs in the generated Atalla code of each pointwise kernel.

`python -m tools.chip_counts` prints tools/codegen/chip_counts.json, from which the analytic model's counts are
generated; `--write` writes it. Every kernel whose Atalla code uses the vector unit runs on the ISA engine, on a chip
whose memory takes almost no time, over 4 and over 8 tiles. The difference of both is 4 tiles of 32 vectors:

- vector: instructions of the busier of adder and multiplier;
- exp: instructions of the exponential unit;
- packets: cycles beyond those for which the busiest unit is occupied, without one for loads and stores. They are
  waits for the first results of a tile, or, by the hundred, for the scalar core, which works lane by lane.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools/codegen/chip_counts.json"
TILES = (4, 8)
SCALARS = {"alpha": 1, "negative_slope": 0.1, "threshold": 0.5, "value": 0.5, "exponent": 2.0, "min": -0.5, "max": 0.5}


def measure_here(only: list[str]) -> dict[str, dict[str, float]]:
    """In this process, whose chip's memory is fast. only: names, none for all kernels."""
    import torch

    import torch_atalla
    from benchmarks.isa_cases import BF16, Case
    from benchmarks.isa_codegen import build, executed
    from torch_atalla.compiler.program import kernels
    from torch_atalla.compiler.targets.chip.network import NoProgramError
    from torch_atalla.isa.engine import ExecutionError

    occupancy = torch_atalla.chip.config()["vector"]["occupancy_cycles"]["value"]
    found = {}
    for name, inputs in pointwise_kernels().items():
        if only and name not in only:
            continue
        contract = kernels.contract(f"pointwise.{name}")
        scalars = {p: SCALARS[p] for p in contract.parameters if p in SCALARS}
        runs = []
        for tiles in TILES:
            x = (torch.rand(tiles * 1024) * 0.8 + 0.1).to(BF16)
            out = torch.empty_like(x)
            case = Case(name, f"pointwise.{name}", [x] * inputs, out, scalars)
            try:
                network, given = build(case)
                runs.append(executed(network, given))
            except (NoProgramError, ExecutionError):  # none, or one that refuses these elements
                break
        if len(runs) < 2:
            continue
        vectors = (TILES[1] - TILES[0]) * 32
        units = (run.unit_instructions for run in runs)
        count = {
            unit: round((more - n) / vectors) for (unit, n), more in zip(next(units).items(), next(units).values())
        }
        vector, exp = max(count["valu"], count["vmul"]), count["vexp"]
        if vector == exp == 0:
            continue  # the scalar core computes element by element
        cycles = (runs[1].cycles - runs[0].cycles) / vectors
        packets = max(0.0, round(cycles - occupancy * max(vector, exp) - 1, 2))
        found[name] = {"vector": vector, "exp": exp, "packets": packets}
    return found


def pointwise_kernels() -> dict[str, int]:
    """The number of inputs of each kernel with one result."""
    from tools.codegen import model

    entries = model.load(ROOT / "csrc/aten/atalla_native_functions.yaml")
    return {p.name: len(p.inputs) for p in model.pointwise_kernels(entries) if len(p.results) == 1}


def measure(*only: str) -> dict[str, dict[str, float]]:
    """The table, or the rows of these kernels, by another process. Raises RuntimeError, with what it printed."""
    text = (ROOT / "csrc/sim/chip.toml").read_text()
    text = re.sub(r"(?m)^(beat_cycles = \{ value = )[\d.]+", r"\g<1>0.01", text)
    text = re.sub(r"(?m)^(setup_cycles = \{ value = )\d+", r"\g<1>1", text)
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(text)
        command = [sys.executable, "-m", "tools.chip_counts", "--here", *only]
        environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"tools.chip_counts failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.chip_counts", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write tools/codegen/chip_counts.json")
    parser.add_argument("--here", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here is not None:
        print(json.dumps(measure_here(args.here)))
        return 0
    rows = [f' "{name}": {json.dumps(row)}' for name, row in sorted(measure().items())]
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    if args.write:
        TABLE.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
