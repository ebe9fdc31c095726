# SPDX-License-Identifier: BSD-3-Clause
"""What the device reports against executed code, for random calls of all ops: `python -m tools.clock_sweep`.

    --calls N      of each op (default 2)        --seed S   of the draws
    --launches N   random launches of kernels    --write    docs/reference/clock/launches.md
    --chips N      random chip files, each in a process of its own, beside the one of this process
    --only TEXT    ops and kernels whose name contains it

Calls are upstream's OpInfo samples in bfloat16. A call that makes one launch is charged what the launch's code takes
alone (targets/chip/clock.py). The same call as a program of its own goes another way (exported, lowered, fused) and
runs on the ISA engine with the call's values. Random launches are drawn from the contracts of kernels
(launches.py). Exit code 1 if more than 5 % of the launches differ by more than 2 %, 1 % by more than 5 %, or one
by more than 15 %, unless there is a reason.
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
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla import telemetry
from torch_atalla.compiler.targets.chip.fusion import STEPS
from torch_atalla.explorer.space import with_values

from .launches import SAME, Row, apart, measured_launches, why_apart

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/clock/launches.md"
MOST_ELEMENTS = 1 << 16  # of a call's tensors
NEAR, FAR = 0.05, 0.15
REASONS = {  # for which cycles may differ
    "other launches": "the program computes the call with other launches than eager mode, or knows the result.",
    "values": "the code branches. It takes the reported cycles for the values with which launches are charged, but not "
    "for those that were drawn.",
}
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


def calls(number: int, draw: random.Random, only: str) -> Iterator[tuple[str, Any, Any]]:
    """Names of ops, operands on the device, and functions that call them with these."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if not number or only not in op.name or torch.bfloat16 not in op.dtypes:
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
                launched = telemetry.launches()[-1].kernel
                with torch_atalla.chip.engine("isa") as engine:
                    result = call(given)
        except Exception:  # noqa: BLE001, without code, refused, or for other devices
            continue
        if sum(engine.ops.values()) == 1:
            reported, executed = counted.cycles - overhead, engine.stats.cycles
            if not is_this_launch(engine.kernels, launched, pytree.tree_leaves((given, result))):
                why = "other launches"
            else:
                why = why_apart(reported, executed, partial(cycles_like_the_charge, call, given))
            found.append((name, reported, executed, why))
    return found


def is_this_launch(kernels: tuple[str, ...], launched: str, operands: list[Any]) -> bool:
    """Whether the program makes the launch of eager mode, beside copies that convert inputs and outputs of other dtypes
    than bfloat16."""
    own = STEPS if launched.startswith("pointwise.") and launched not in kernels else launched
    others = list(kernels)
    if own not in others:
        return False
    others.remove(own)
    converted = sum(isinstance(x, torch.Tensor) and x.dtype is not torch.bfloat16 for x in operands)
    return set(others) <= {"copy"} and len(others) <= converted


def cycles_like_the_charge(call: Any, given: Any, number: int) -> int:
    seeds = itertools.count()
    values = pytree.tree_map_only(torch.Tensor, lambda x: like_the_charge(x, next(seeds), number), given)
    with torch.no_grad(), torch_atalla.chip.engine("isa") as engine:
        call(values)
    return engine.stats.cycles


def like_the_charge(x: torch.Tensor, seed: int, number: int) -> torch.Tensor:
    """With the values for which a launch is charged. number: that integers are."""
    drawn = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)).mul(0.8).add(0.1)
    values = drawn if x.dtype.is_floating_point else torch.full(x.shape, number)
    return torch.empty_like(x).copy_(values.to(x.dtype))


def on_chip(values: dict[str, Any], arguments: list[str]) -> tuple[list[Row], list[Row]]:
    text = with_values(torch_atalla.chip.config_text(), values)
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(text)
        command = [sys.executable, "-W", "ignore", "-m", "tools.clock_sweep", "--json", *arguments]
        environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    calls, launches = json.loads(done.stdout.splitlines()[-1])
    return [tuple(row) for row in calls], [tuple(row) for row in launches]


def summary(rows: list[Row]) -> str:
    """Cells: launches, within 2 % and 5 %, the largest deviation; of those that should not differ."""
    steady = [row for row in rows if not row[3]]
    shares = [sum(apart(row) <= limit for row in steady) / max(1, len(steady)) for limit in (SAME, NEAR)]
    worst = max(steady, key=apart, default=("", 1, 1, ""))
    return f"{len(steady):,} | {shares[0]:.1%} | {shares[1]:.1%} | {apart(worst):.1%} ({worst[0]})"


def is_right(rows: list[Row]) -> bool:
    steady = [apart(row) for row in rows if not row[3]]
    limits = ((SAME, 0.05), (NEAR, 0.01), (FAR, 0))  # the share of launches that may differ by more
    return all(sum(x > limit for x in steady) <= share * len(steady) for limit, share in limits)


def deviations(rows: list[Row]) -> Iterator[str]:
    """Of those that differ, by reason and op or kernel, how many there are and between which ratios."""
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name, reported, executed, why in rows:
        if apart((name, reported, executed, why)) > SAME:
            ratios[why, name].append(reported / executed)
    for (why, name), found in sorted(ratios.items()):
        yield f"| {name} | {len(found)} | {min(found):.2f} | {max(found):.2f} | {why} |"


def table(found: dict[str, list[Row]]) -> list[str]:
    return [
        "| chip | launches | within 2 % | within 5 % | largest |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {chip} | {summary(rows)} |" for chip, rows in found.items()),
        "",
    ]


def page(found: dict[str, list[Row]], launches: dict[str, list[Row]], arguments: str) -> str:
    every = [row for rows in (*found.values(), *launches.values()) for row in rows]
    return "\n".join(
        [
            "# Reported and executed cycles of single launches",
            "",
            "This page compares the cycles that the device reports for a launch with those of the launch's code, run",
            f"with the launch's values. `python -m tools.clock_sweep {arguments}` writes it.",
            "",
            "## Calls of ops",
            "",
            "Calls are drawn from upstream's OpInfo samples in bfloat16. A call runs as a program of its own, which is",
            "exported, lowered and fused.",
            "",
            *table(found),
            "## Random launches",
            "",
            "Launches are drawn from the contracts of kernels ([kernels.md](../kernels.md)) in bfloat16 and integers.",
            "Operands have any sizes, are expanded, have gaps, and lie in memory in any order of dimensions.",
            "",
            *table(launches),
            "## Launches that differ by more than 2 %",
            "",
            "The tables above leave out launches with a reason:",
            "",
            *(f"- {name}: {text}" for name, text in REASONS.items()),
            "",
            "| op or kernel | launches | least ratio | greatest ratio | reason |",
            "| --- | --- | --- | --- | --- |",
            *deviations(every),
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.clock_sweep", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--launches", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chips", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = measured(args.calls, args.seed, args.only), measured_launches(args.launches, args.seed, args.only)
    if args.json:
        print(json.dumps(rows))
        return 0
    found, launches = {"the default": rows[0]}, {"the default": rows[1]}
    draw = random.Random(args.seed)
    arguments = ["--seed", str(args.seed), "--only", args.only]
    arguments += ["--calls", str(args.calls), "--launches", str(args.launches // max(1, args.chips))]
    for _ in range(args.chips):
        values = {name: draw.choice(choices) for name, choices in CHIPS.items()}
        if values["array.rows"] == 64 or values["array.columns"] == 64:
            values["array.latency_cycles"] = 85
        name = ", ".join(f"{name}={value}" for name, value in values.items())
        found[name], launches[name] = on_chip(values, arguments)
    text = page(found, launches, " ".join(sys.argv[1:]))
    print(text)
    if args.write:
        PAGE.write_text(text)
    return 0 if all(map(is_right, (*found.values(), *launches.values()))) else 1


if __name__ == "__main__":
    sys.exit(main())
