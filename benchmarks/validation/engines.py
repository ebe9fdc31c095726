# SPDX-License-Identifier: BSD-3-Clause
"""What the two engines of this project measure for a layer of benchmarks.validation.cases, in bfloat16."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import torch_atalla
from torch_atalla.compiler.program.ir import BufferKind
from torch_atalla.compiler.schedule.work import Work
from torch_atalla.compiler.schedule.work import measure as work_of
from torch_atalla.compiler.targets.chip.estimate import packed
from torch_atalla.compiler.targets.chip.place import run_network
from torch_atalla.compiler.targets.functional.pipeline import device_chip
from torch_atalla.telemetry import Counters

from ..isa_cases import BF16, Case, image, linear, tensor
from ..isa_codegen import build, case_program, on_device
from .cases import Layer

ROOT = Path(__file__).resolve().parents[2]
DEEP_QUEUE = 64  # transfers: the most that a chip file may state


@dataclass(frozen=True)
class Measured:
    """Cycles and bytes of one layer. `array` and `sdma`: cycles in which the unit was busy."""

    array: int
    sdma: int
    cycles: int
    bytes: int
    waits: float  # of the estimate, cycles of the SDMA for which the core stands still
    last: float  # of the core's work in the estimate, the share that follows the last tile
    code_array: int  # of executed chip code, as the following ones
    code_packets: int
    code_bus: int
    code_cycles: int
    code_bytes: int


def case(layer: Layer) -> Case:
    """The layer as one launch."""
    if layer.product:
        factors = [tensor(1, layer.m, layer.k), tensor(1, layer.k, layer.n)]
        out = torch.empty(1, layer.m, layer.n, dtype=BF16)
        scalars = {"alpha": 1, "beta": 0}
        if layer.both_computed:
            return Case(layer.name, "gemm", factors, out, scalars, functional=torch.matmul)
        return Case(layer.name, "gemm", factors, out, scalars, (1,), module=linear(factors[1][0].t()))
    stride, padding = layer.stride, layer.padding
    window = {"stride": (stride, stride, 1), "padding": (padding, padding, 0), "dilation": (1, 1, 1)}
    pixels = image(1, layer.channels, layer.height, layer.width)
    weight = image(layer.filters, layer.channels, layer.kernel, layer.kernel)
    return Case(
        layer.name,
        "convolution",
        [pixels, weight, None],
        image(1, layer.filters, *layer.out),
        {"groups": 1, **window},
        constants=(1,),
        functional=lambda i, w: F.conv2d(i, w, stride=stride, padding=padding),
    )


def analytic(launch: Case) -> Counters:
    """What the functional engine counts for one launch, with packed weights in a loadable."""
    given = [
        x for i, x in enumerate(launch.inputs) if x is not None and (launch.functional or i not in launch.constants)
    ]
    run = launch.functional or loadable(launch, given)
    operands = [on_device(x) for x in given]
    torch.accelerator.synchronize()
    torch_atalla.telemetry.reset()
    run(*operands)
    torch.accelerator.synchronize()
    counted = torch_atalla.telemetry.counters()
    assert counted.launches == 1 and counted.copies == 0, counted
    return counted


def loadable(launch: Case, given: list[torch.Tensor]) -> Callable:
    assert launch.module is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.atl"
        torch_atalla.save_loadable(launch.module, path, args=tuple(given), fallback="error", optimize="fast")
        return torch_atalla.load_loadable(path)


def work_record(launch: Case) -> Work:
    """Of the launch with packed weights."""
    program = case_program(launch)[0]
    constants = {x.index for x in program.buffers if x.kind is BufferKind.CONSTANT}
    work = work_of(packed(program.instructions[0], constants), device_chip().geometry)
    assert work is not None
    return work


def waits(launch: Case) -> tuple[float, float]:
    """Of the bytes that the launch moves, those for which the core waits, and of the core's work that after the last
    tile, as its work record has them (csrc/sim/time/waits.cpp)."""
    work = work_record(launch).raw
    layouts = list(zip(work.layout, work.operand_bytes))
    waited = sum(layout.waits * moved for layout, moved in layouts) / 255
    return waited / (work.bytes_read + work.bytes_written), max(layout.last for layout, _ in layouts) / 255


def measure(layer: Layer) -> Measured:
    """Run the layer on both engines, with the chip of the process."""
    launch = case(layer)
    counted = analytic(launch)
    waited, last = waits(launch)
    network, given = build(launch)
    stats = run_network(network, network.code(), given).stats
    return Measured(
        counted.array_cycles,
        counted.sdma_cycles,
        counted.cycles,
        counted.dram_bytes,
        counted.sdma_cycles * waited,
        last,
        stats.unit_cycles["gsau"],
        stats.packets,
        stats.bus_cycles,
        stats.cycles,
        stats.dram_bytes_read + stats.dram_bytes_written,
    )


class Product(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def device_run(layer: Layer) -> dict[str, int]:
    """Cycles of the layer's chip code on the device of this process, which has the chip file of the environment."""
    launch = case(layer)
    given = [x for i, x in enumerate(launch.inputs) if x is not None and i not in launch.constants]
    module: torch.nn.Module = Product()
    if not layer.product:
        sizes = (layer.channels, layer.filters, layer.kernel, layer.stride, layer.padding)
        module = torch.nn.Conv2d(*sizes, bias=False, dtype=BF16)
        module.weight.data = launch.inputs[1]
    elif not layer.both_computed:
        module = torch.nn.Linear(layer.k, layer.n, bias=False, dtype=BF16)
        module.weight.data = launch.inputs[1][0].t().contiguous()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.atl"
        torch_atalla.save_loadable(module.eval(), path, args=tuple(given), engine="isa", fallback="error")
        program = torch_atalla.load_loadable(path, engine="isa")
        program(*(x.to("atalla") for x in given))
        stats = program.stats
    return {"cycles": stats.cycles, "packets": stats.packets, "bus": stats.bus_cycles}


def with_deep_queue(layers: list[Layer]) -> dict[Layer, dict[str, int]]:
    """Cycles of chip code on a chip whose SDMA engines queue 64 transfers instead of 8, in a process of its own."""
    text = (ROOT / "csrc/sim/chip.toml").read_text()
    changed = text.replace("queue_depth = { value = 8,", f"queue_depth = {{ value = {DEEP_QUEUE},")
    assert changed != text
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(changed)
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.validation.engines"],
            input=json.dumps([asdict(layer) for layer in layers]),
            env=os.environ | {"ATALLA_CHIP_CONFIG": str(chip)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: list[dict[str, Any]] = json.loads(result.stdout.splitlines()[-1])
    return dict(zip(layers, found))


if __name__ == "__main__":
    print(json.dumps([device_run(Layer(**fields)) for fields in json.load(sys.stdin)]))
