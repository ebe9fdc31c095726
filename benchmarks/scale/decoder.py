# SPDX-License-Identifier: BSD-3-Clause
"""A decoder of a billion parameters in bfloat16, saved, loaded and run: a process for each, with its peak of memory.

python -m benchmarks.scale.decoder save|run FILE LAYERS    -> one line of JSON: seconds, bytes
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import torch

import torch_atalla

from ..quantization.model import Sizes, decoder
from .sweep import Sweep

TOKENS = 4


def sizes(layers: int) -> Sizes:
    return Sizes(vocabulary=32_000, width=2048, heads=32, layers=layers, hidden=5632, length=64)


def parameters(layers: int) -> int:
    s = sizes(layers)
    block = 4 * s.width * s.width + 3 * s.width * s.hidden + 2 * s.width
    return layers * block + 2 * s.vocabulary * s.width + s.width


def save(path: Path, layers: int) -> dict[str, float]:
    model = decoder(sizes(layers), dtype=torch.bfloat16)
    assert sum(p.numel() for p in model.parameters()) == parameters(layers)
    exported = torch.export.export(model, (torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, dtype=torch.long)))
    start = time.perf_counter()
    torch_atalla.save_loadable(exported, path, fallback="error", golden=False)
    return {"seconds": time.perf_counter() - start}


def run(path: Path, _layers: int) -> dict[str, float]:
    start = time.perf_counter()
    program = torch_atalla.load_loadable(path, device="atalla")
    loaded = time.perf_counter() - start
    token, costs = torch.ones(1, 1, dtype=torch.long, device="atalla"), []
    for position in range(TOKENS):
        start = time.perf_counter()
        logits = program(token, torch.tensor([position], device="atalla"))
        token = logits[:, -1:].argmax(-1)
        assert torch.isfinite(logits).all().item()
        costs.append(time.perf_counter() - start)
    return {"load": loaded, "token": min(costs)}


@cache
def measured(layers: int) -> dict[str, dict[str, float]]:
    """Of both processes, by name; peak: bytes of resident memory."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in ("save", "run"):
            command = [sys.executable, "-m", __name__, part, str(Path(folder, "decoder.atl")), str(layers)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[part] = json.loads(done.stdout.splitlines()[-1])
        found["file"] = {"bytes": Path(folder, "decoder.atl").stat().st_size}
    return found


LAYERS = (1, 2, 4, 8, 22)


def token(number: int) -> float:
    return measured({parameters(layers): layers for layers in LAYERS}[number])["run"]["token"]


def summary() -> str:
    found = measured(LAYERS[-1])
    gib = 2.0**30
    return (
        f"The decoder of {parameters(LAYERS[-1]) / 1e9:.2f} billion parameters: a file of "
        f"{found['file']['bytes'] / gib:.2f} GiB; save {found['save']['seconds']:.1f} s without torch.export, "
        f"peak {found['save']['peak'] / gib:.1f} GiB with the model; load {found['run']['load']:.2f} s, "
        f"{found['run']['token'] * 1e3:.0f} ms a token, peak {found['run']['peak'] / gib:.1f} GiB."
    )


SWEEPS = (
    Sweep(
        "a token of a bfloat16 decoder of n parameters",
        tuple(parameters(layers) for layers in LAYERS),
        token,
        "Each token reads every weight once, at the speed of the host's memory.",
    ),
)

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    torch.set_grad_enabled(False)
    part, path, layers = sys.argv[1:]
    result = {"save": save, "run": run}[part](Path(path), int(layers))
    result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
    print(json.dumps(result))
