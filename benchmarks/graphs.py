# SPDX-License-Identifier: BSD-3-Clause
"""Measures a training step as a graph's replay against the same step in eager mode: what the launches alone cost.

python -m benchmarks.graphs [--quick] [--filter TEXT] [--threads 1 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

import torch_atalla

from . import machine
from .harness import QUICK, Effort, Pair, measure_pair, threads


@dataclass(frozen=True)
class Row:
    name: str
    launches: int
    threads: int
    pair: Pair


def mlp_step(width: int, layers: int, batch: int) -> Callable[[], torch.Tensor]:
    """Forward, loss, backward and SGD of a perceptron with tanh, on static tensors."""
    torch.manual_seed(0)
    blocks = [m for _ in range(layers) for m in (torch.nn.Linear(width, width), torch.nn.Tanh())]
    model = torch.nn.Sequential(*blocks).to("atalla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(2, batch, width).to("atalla").unbind()

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


CASES = {
    f"mlp {layers} x {width}, batch {batch}": (width, layers, batch)
    for width, layers, batch in ((32, 3, 16), (32, 12, 16), (256, 3, 64))
}


def measure(name: str, number: int, effort: Effort) -> Row:
    step = mlp_step(*CASES[name])
    step()
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph):
        step()
    torch_atalla.telemetry.reset()
    graph.replay()
    torch.atalla.synchronize()
    launches = torch_atalla.telemetry.counters().launches

    def waiting(work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            work()
            torch.atalla.synchronize()

        return run

    with threads(number):
        pair = measure_pair(waiting(graph.replay), waiting(step), effort=effort)
    return Row(name, launches, number, pair)


def table(rows: list[Row]) -> str:
    lines = [
        "| step | launches | threads | replay us | eager us | replay / eager |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        first, second, ratio = row.pair.first, row.pair.second, row.pair.ratio
        lines.append(
            f"| {row.name} | {row.launches} | {row.threads} | {first.median * 1e6:.0f} | {second.median * 1e6:.0f} | "
            f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) |"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description="Replays against eager steps.")
    parser.add_argument("--quick", action="store_true", help="a few short samples: to try it, not to publish")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only cases whose name has the text")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there")
    args = parser.parse_args(argv)
    effort = QUICK if args.quick else Effort()
    with torch_atalla.fallback.mode("error"):
        rows = [measure(name, n, effort) for n in args.threads for name in CASES if args.filter in name]
    print(table(rows))
    if args.json:
        data = {"environment": machine.describe(), "rows": [asdict(row) for row in rows]}
        Path(args.json).write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
