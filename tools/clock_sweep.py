# SPDX-License-Identifier: BSD-3-Clause
"""What the device reports against executed code, for random calls of all ops: `python -m tools.clock_sweep`.

    --calls N     of each op (default 2)       --seed S     of the draw of samples
    --chips N     random chip files, each in a process of its own, beside the one of this process
    --only TEXT   ops whose name contains it   --write      docs/reference/clock-sweep.md

Calls are upstream's OpInfo samples in bfloat16. A call that makes one launch is charged what the launch's code takes
alone (targets/chip/clock.py). The same call as a program of its own goes another way (exported, lowered, fused) and
runs on the ISA engine with the call's values. Exit code 1 if more than 1 % of the launches differ by more than 5 %, or
one by more than 15 %, unless the program makes other launches, or code that branches takes the reported cycles for the
values with which launches are charged.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla import telemetry
from torch_atalla.explorer.space import with_values

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/clock-sweep.md"
MOST_ELEMENTS = 1 << 16  # of a call's tensors
SAME = 0.02  # of the cycles
CHIPS: dict[str, list[Any]] = {
    "dram.preset": ["constant", "ddr4_3200", "lpddr4_3200", "lpddr5_6400", "hbm2_2000"],
    "array.rows": [32, 64],
    "array.columns": [32, 64],
    "sdma.queue_depth": [4, 8, 64],
    "sdma.setup_cycles": [4, 8, 32],
    "scratchpad.ports": [1, 2, 3],
    "instruction_cache.bytes": [0, 131_072],
    "vector.occupancy_cycles": [1, 2, 4],
}
Row = tuple[str, int, int, str]  # op, reported and executed cycles, why they may differ


def calls(number: int, draw: random.Random, only: str) -> Iterator[tuple[str, Any, Any]]:
    """Names of ops, operands on the device, and functions that call them with these."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if only not in op.name or torch.bfloat16 not in op.dtypes:
            continue
        try:
            samples = list(op.sample_inputs("cpu", torch.bfloat16))
        except Exception:  # noqa: BLE001, upstream's samples of some ops want what is not installed
            continue
        for sample in draw.sample(samples, min(number, len(samples))):
            given = pytree.tree_map_only(
                torch.Tensor, lambda x: x.to("atalla"), (sample.input, sample.args, sample.kwargs)
            )
            leaves = [x for x in pytree.tree_leaves(given) if isinstance(x, torch.Tensor)]
            if sum(x.numel() for x in leaves) <= MOST_ELEMENTS:
                yield op.full_name, given, lambda given, op=op: op(given[0], *given[1], **given[2])


def measured(number: int, seed: int, only: str) -> list[Row]:
    """Of the calls that make one launch that has code."""
    overhead = torch_atalla.chip.config()["launch"]["overhead_cycles"]["value"]
    found: list[Row] = []
    for name, given, call in calls(number, random.Random(seed), only):
        torch.manual_seed(seed)
        try:
            with torch.no_grad(), torch_atalla.fallback.mode("error"):
                call(given)
                torch.accelerator.synchronize()
                telemetry.reset()
                call(given)
                torch.accelerator.synchronize()
                counted = telemetry.counters()
                if counted.launches != 1 or counted.copies or counted.assumed_cycles:
                    continue
                with torch_atalla.chip.engine("isa") as engine:
                    result = call(given)
        except Exception:  # noqa: BLE001, without code, refused, or for other devices
            continue
        if sum(engine.ops.values()) == 1:
            reported, executed = counted.cycles - overhead, engine.stats.cycles
            found.append((name, reported, executed, reason(engine, call, given, result, reported)))
    return found


def reason(engine: Any, call: Any, given: Any, result: Any, reported: int) -> str:
    """Why executed cycles may differ from reported ones; "" if they should not."""
    if not makes_one_launch(engine.kernels, pytree.tree_leaves((given, result))):
        return "other launches"
    if abs(reported / engine.stats.cycles - 1) <= SAME:
        return ""
    try:
        with torch.no_grad(), torch_atalla.chip.engine("isa") as again:
            seeds = itertools.count()
            call(pytree.tree_map_only(torch.Tensor, lambda x: like_the_charge(x, next(seeds)), given))
    except Exception:  # noqa: BLE001, the op refuses these values
        return ""
    return "values" if abs(reported / again.stats.cycles - 1) <= SAME else ""


def like_the_charge(x: torch.Tensor, seed: int) -> torch.Tensor:
    """With the values for which a launch is charged."""
    drawn = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)).mul(0.8).add(0.1)
    values = drawn if x.dtype.is_floating_point else torch.zeros(x.shape)
    return torch.empty_like(x).copy_(values.to(x.dtype))


def makes_one_launch(kernels: tuple[str, ...], operands: list[Any]) -> bool:
    """Beside copies that convert inputs and outputs of other dtypes than bfloat16."""
    converted = sum(isinstance(x, torch.Tensor) and x.dtype is not torch.bfloat16 for x in operands)
    computing = [kernel for kernel in kernels if kernel != "copy"]
    return len(computing) <= 1 and len(kernels) - max(1, len(computing)) <= converted


def on_chip(values: dict[str, Any], arguments: list[str]) -> list[Row]:
    text = with_values(torch_atalla.chip.config_text(), values)
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(text)
        command = [sys.executable, "-W", "ignore", "-m", "tools.clock_sweep", "--json", *arguments]
        environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [(name, told, ran, why) for name, told, ran, why in json.loads(done.stdout.splitlines()[-1])]


def apart(row: Row) -> float:
    _, reported, executed, _ = row
    return abs(reported / executed - 1)


def compared(rows: list[Row]) -> list[Row]:
    return [row for row in rows if not row[3]]


def summary(rows: list[Row]) -> str:
    """Cells: launches, within 2 % and 5 %, the largest deviation."""
    steady = compared(rows)
    shares = [sum(apart(row) <= limit for row in steady) / max(1, len(steady)) for limit in (0.02, 0.05)]
    worst = max(steady, key=apart, default=("", 1, 1, ""))
    return f"{len(steady)} | {shares[0]:.1%} | {shares[1]:.1%} | {apart(worst):.1%} ({worst[0]})"


def is_right(rows: list[Row]) -> bool:
    steady = [apart(row) for row in compared(rows)]
    return sum(x > 0.05 for x in steady) <= 0.01 * len(steady) and max(steady, default=0) <= 0.15


def deviations(rows: list[Row]) -> list[str]:
    far = sorted((row for row in rows if apart(row) > 0.05), key=lambda row: (row[3], -apart(row)))
    return [
        f"| {name} | {reported:,} | {executed:,} | {reported / executed:.2f} | {why} |"
        for name, reported, executed, why in far
    ]


def page(found: dict[str, list[Row]]) -> str:
    every = [row for rows in found.values() for row in rows]
    return "\n".join(
        [
            "# Reported and executed cycles of single launches",
            "",
            "This page compares the cycles that the device reports for a launch with those of the code of the same",
            "call, run with its values. `python -m tools.clock_sweep --chips 8 --write` draws calls from upstream's",
            "OpInfo samples in bfloat16, and chips. The first table leaves out launches whose code takes the reported",
            "cycles for the values with which they are charged, but other ones for those of the call, and calls that a",
            "program of its own computes with other launches than eager mode.",
            "",
            "| chip | launches | within 2 % | within 5 % | largest |",
            "| --- | --- | --- | --- | --- |",
            *(f"| {chip} | {summary(rows)} |" for chip, rows in found.items()),
            "",
            "Launches that differ by more than 5 %:",
            "",
            "| op | reported | executed | ratio | |",
            "| --- | --- | --- | --- | --- |",
            *deviations(every),
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.clock_sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chips", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = measured(args.calls, args.seed, args.only)
    if args.json:
        print(json.dumps(rows))
        return 0
    found, draw = {"the default": rows}, random.Random(args.seed)
    arguments = ["--calls", str(args.calls), "--seed", str(args.seed), "--only", args.only]
    for _ in range(args.chips):
        values = {name: draw.choice(choices) for name, choices in CHIPS.items()}
        if values["array.rows"] == 64 or values["array.columns"] == 64:
            values["array.latency_cycles"] = 85
        found[", ".join(f"{name}={value}" for name, value in values.items())] = on_chip(values, arguments)
    text = page(found)
    print(text)
    if args.write:
        PAGE.write_text(text)
    return 0 if all(map(is_right, found.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
