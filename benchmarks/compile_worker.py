# SPDX-License-Identifier: BSD-3-Clause
"""One model compiled by torch.compile, on the device and by Inductor on the CPU. Prints one line of JSON.

    python -m benchmarks.compile_worker NAME TASK [--peer]

TASK: inference, or training (forward, a loss, backward; gradients are compared). A process of its own, so that the
first compilation is one: TORCHINDUCTOR_CACHE_DIR is an empty folder.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from tools.model_zoo import MODELS
from tools.vision_zoo import NETWORKS
from torch_atalla.testing import tensors

from .harness import Effort, measure_pair, threads

EFFORT = Effort(rounds=11, sample_seconds=0.02)
Call = Callable[[], list[torch.Tensor]]


def calls(name: str, task: str, device: str) -> tuple[Call, Call]:
    """The model's call in eager mode and compiled."""
    module, inputs = {**MODELS, **NETWORKS}[name]()
    module = module.to(device)
    inputs = tree_map_only(torch.Tensor, lambda x: x.to(device), inputs)

    def call(function: Callable[..., Any]) -> Call:
        def infer() -> list[torch.Tensor]:
            with torch.no_grad():
                return tensors(function(**inputs))

        def train() -> list[torch.Tensor]:
            module.zero_grad()
            results = [x for x in tensors(function(**inputs)) if x.is_floating_point()]
            sum(x.float().square().mean() for x in results).backward()
            return [p.grad for p in module.parameters() if p.grad is not None]

        return infer if task == "inference" else train

    return call(module), call(torch.compile(module))


def finished(call: Call) -> Callable[[], object]:
    def run() -> None:
        call()
        torch.atalla.synchronize()

    return run


def seconds_of(call: Call) -> float:
    begin = time.perf_counter()
    call()
    torch.atalla.synchronize()
    return time.perf_counter() - begin


def difference(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The greatest difference, as a part of the greatest value of its tensor; 0.0 where all bits are the same."""
    assert len(found) == len(expected), (len(found), len(expected))
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if not torch.equal(a, b):
            a, b = a.double(), b.double()
            worst = max(worst, float((a - b).abs().max() / b.abs().max()))
    return worst


class EagerNodes(logging.Handler):
    """Collects what the backend says of nodes that it does not compile."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("runs eagerly: "):
            self.found.append(text.removeprefix("runs eagerly: "))


def measure(name: str, task: str, with_peer: bool) -> dict[str, Any]:
    eager_nodes = EagerNodes()
    log = logging.getLogger("torch_atalla.integration.dynamo.lowering")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(eager_nodes)
    eager, compiled = calls(name, task, "atalla")
    expected = [x.clone() for x in eager()]
    cold = seconds_of(compiled)
    found = [x.clone() for x in compiled()]
    torch._dynamo.reset()
    _, again = calls(name, task, "atalla")
    row: dict[str, Any] = {
        "name": name,
        "task": task,
        "difference": difference(found, expected),
        "eager_nodes": eager_nodes.found,
        "cold": cold,
        "warm": seconds_of(again),
    }
    for number in (1, 2):
        with threads(number):
            pair = measure_pair(finished(compiled), finished(eager), effort=EFFORT)
            row[f"eager{number}"] = [pair.first.median, pair.second.median, *_spread(pair)]
    if with_peer:
        torch._dynamo.reset()
        _, peer = calls(name, task, "cpu")
        row["peer_cold"] = seconds_of(peer)
        for number in (1, 2):
            with threads(number):
                pair = measure_pair(finished(compiled), peer, effort=EFFORT)
                row[f"peer{number}"] = [pair.first.median, pair.second.median, *_spread(pair)]
    return row


def _spread(pair: Any) -> list[float]:
    return [pair.ratio.median, pair.ratio.low, pair.ratio.high]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps(measure(sys.argv[1], sys.argv[2], "--peer" in sys.argv)))
