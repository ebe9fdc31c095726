# SPDX-License-Identifier: BSD-3-Clause
"""What the chip's code takes for a layer of benchmarks.validation.cases, in bfloat16, and what the device reports."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import torch_atalla
from torch_atalla.compiler.targets.chip.place import run_network
from torch_atalla.telemetry import Counters

from ..isa_cases import BF16, Case, image, linear, tensor
from ..isa_codegen import build, on_device
from .cases import Layer


@dataclass(frozen=True)
class Measured:
    """Of one layer's executed code; reported: by the device, for its launch on the functional engine."""

    array: int  # cycles in which the array was busy
    bus: int
    packets: int
    cycles: int
    bytes: int  # of DRAM
    reported: int  # cycles, with the overhead of a launch


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
    weight = image(layer.filters, layer.channels, layer.kernel, layer.kernel)
    module = torch.nn.Conv2d(layer.channels, layer.filters, layer.kernel, stride, padding, bias=False, dtype=BF16)
    module.weight.data = weight
    return Case(
        layer.name,
        "convolution",
        [image(1, layer.channels, layer.height, layer.width), weight, None],
        image(1, layer.filters, *layer.out),
        {"groups": 1, **window},
        constants=(1,),
        module=module.eval(),
    )


def counted(launch: Case) -> Counters:
    """What the device counts for the launch on the functional engine, weights as constants of a loadable."""
    given = [
        x for i, x in enumerate(launch.inputs) if x is not None and (launch.functional or i not in launch.constants)
    ]
    run = launch.functional or loadable(launch, given)
    operands = [on_device(x) for x in given]
    torch.accelerator.synchronize()
    torch_atalla.telemetry.reset()
    run(*operands)
    torch.accelerator.synchronize()
    found = torch_atalla.telemetry.counters()
    assert found.launches == 1 and found.copies == 0, found
    return found


def loadable(launch: Case, given: list[torch.Tensor]) -> Callable:
    assert launch.module is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.atl"
        torch_atalla.save_loadable(launch.module, path, args=tuple(given), fallback="error", optimize="fast")
        return torch_atalla.load_loadable(path)


def measure(layer: Layer) -> Measured:
    """Run the layer's code, and its launch on the functional engine, with the chip of the process."""
    launch = case(layer)
    network, given = build(launch)
    stats = run_network(network, network.code(), given).stats
    return Measured(
        stats.unit_cycles["gsau"],
        stats.bus_cycles,
        stats.packets,
        stats.cycles,
        stats.dram_bytes_read + stats.dram_bytes_written,
        counted(launch).cycles,
    )
