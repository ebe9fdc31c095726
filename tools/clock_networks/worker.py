# SPDX-License-Identifier: BSD-3-Clause
"""A child process that measures networks on one chip, which ATALLA_CHIP_CONFIG names."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import torch_atalla
from tools.comparison import on_device
from tools.runner import Handler, start_worker
from torch_atalla import load_loadable, save_loadable, telemetry
from torch_atalla.compiler.capture.narrow import to_bfloat16

from .networks import program


def measure(name: str) -> dict[str, Any]:
    """The network in bfloat16 with chip code: cycles that the device reports for a call on the functional engine, those
    of its code with the same inputs, and those of its code with the same values in another order."""
    exported = program(name)
    args, kwargs = exported.example_inputs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atl"
        report = save_loadable(exported, path, engine="isa", convert="bfloat16", fallback="error", verify=False)
        given = on_device(pytree.tree_map_only(torch.Tensor, to_bfloat16, (args, kwargs)))
        functional, code = load_loadable(path), load_loadable(path, engine="isa")

        def executed(given: Any) -> int:
            code(*given[0], **given[1])
            return code.stats.cycles

        torch.accelerator.synchronize()
        telemetry.reset()
        functional(*given[0], **given[1])
        torch.accelerator.synchronize()
        own = telemetry.launches()[-report.launches :]  # without copies of inputs
        found = {"reported": sum(record.cycles for record in own), "executed": executed(given)}
        found |= {"assumed": telemetry.counters().assumed_cycles, "one by one": report.estimate_cycles == 0}
        for change in (reordered, torch.zeros_like):
            with suppress(RuntimeError):  # values that the code refuses
                found["other values"] = executed(pytree.tree_map_only(torch.Tensor, change, given))
            if found.get("other values") not in (None, found["executed"]):
                break
        return {"other values": found["executed"]} | found


def reordered(x: torch.Tensor) -> torch.Tensor:
    return x.flatten().roll(1).reshape(x.shape)


def prepare() -> Handler:
    torch_atalla.fallback.mode("error")

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        try:
            return measure(request["network"])
        except NotImplementedError as error:
            return {"without code": str(error).splitlines()[-1].strip()}
        except Exception as error:  # noqa: BLE001, whatever a network shows
            return {"problem": f"{type(error).__name__}: {str(error).splitlines()[-1].strip()}"[:300]}

    return handle


if __name__ == "__main__":
    start_worker(prepare)
