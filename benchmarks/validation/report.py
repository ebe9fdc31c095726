# SPDX-License-Identifier: BSD-3-Clause
"""The page that benchmarks.validate_chip writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tools.isa_exports import Micro
from tools.pages import table
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.place import run_network

from ..isa_cases import products
from ..isa_codegen import build
from .cases import Layer
from .causes import Row
from .engines import Measured

MULTIPLIERS = 1024  # of the array

INTRO = """# Cycles and traffic beside SCALE-Sim

This page compares the chip's code with [SCALE-Sim 3](https://github.com/scalesim-project/SCALE-Sim), a public simulator
of systolic arrays that shares no code with this project, and with the published figures of the chip team.

```sh
make validate     # python -m benchmarks.validate_chip --write-docs
```

SCALE-Sim gets the chip's geometry: a weight-stationary array of 32 x 32, a scratchpad of 512 Ki elements for the image
and one for the filters, each half filled while the other half is used, and results of 192 rows (the vector registers).
It runs without a limit on DRAM bandwidth and states the bandwidth that it needs; its own bus model gives each operand a
bus. Convolutions have one image. A product of m x k and k x n is named m x k x n. The chip's code is executed by the
ISA engine, in BF16 and with `chip.toml`.

Each cause below is computed from the shapes and the geometry (`benchmarks/validation/causes.py`), not fitted. The
command fails if SCALE-Sim's figure and the causes miss a measured figure by more than 5 %, or if the device reports
other cycles for the layer's launch than its code takes. The column "unexplained" is what remains.
"""

ARRAY = """
## Cycles of the array

SCALE-Sim's cycles are those without stalls. For m rows and each pair of tiles of k and n, it takes 32 cycles for the
weights, m for the rows, and 62 to fill and drain the array. In the chip, rows and pushes follow each other in
consecutive cycles, so that the array fills and drains once per launch. The RTL tile of the
[ISA engine](../concepts/isa-engine.md) works this way: its weights move with the rows.

Windows with few channels are loaded in runs of taps, and each run is rounded up to 32. 192 rows of results fit the
vector registers, so each further block of rows pushes all weights again. A factor that the network computes is
transposed by the array. The first 32 pushes fill the weight buffer.
"""

TRAFFIC = """
## DRAM traffic

In bytes. SCALE-Sim writes a partial result for each tile of k; the chip accumulates them in registers. Its images have
their border in DRAM, and it reads the elements that windows touch; the SDMA loads lines, and makes the border in the
scratchpad. With few channels, a copy pads the image, and each window is loaded from it. Both load weights once.
"""

TIME = """
## Time and utilisation

Utilisation is the share of the array's multipliers that work, on average. SCALE-Sim's is that of the array alone, since
it assumes the bandwidth in bytes per cycle of the fourth column. The chip sustains 4 bytes per cycle: its SDMA needs a
quarter of the bytes in cycles, and 8 cycles per tile of 2 KiB, which its two engines hide from each other. The core
issues packets beside it. The last two columns are the shares of the cycles in which the bus moves bytes and in which
the core issues: a layer whose bus is busy throughout is bound by DRAM. The device reports the cycles of its launch,
which have the overhead of a launch.
"""

PUBLISHED = """
## Published figures of the chip team

The figures of the chip's own tool chain are from its public repositories, for the workload in the first column.

"""


@dataclass
class Comparison:
    """One layer."""

    layer: Layer
    there: dict[str, Any]
    here: Measured
    array: Row
    traffic: Row


def page(networks: dict[str, list[Comparison]], published: bool) -> str:
    """The whole page; without the published figures if not asked for, which takes another minute."""
    every = [(name.partition(" ")[0], c) for name, found in networks.items() for c in found]
    text = INTRO + ARRAY + "\n" + causes_table(every, lambda c: c.array) + "\n"
    text += TRAFFIC + "\n" + causes_table(every, lambda c: c.traffic) + "\n"
    text += TIME + "\n" + time_table(every) + "\n"
    return text + (PUBLISHED + published_table() + "\n" if published else "")


def number(value: float) -> str:
    return f"{value:,}" if value else ""


def percent(value: float) -> str:
    return f"{value:.1%}"


def lines(every: Iterable[tuple[str, Comparison]], cells: Any) -> list[list[str]]:
    return [[f"{network} {c.layer.name}", *cells(c)] for network, c in every]


def causes_table(every: list[tuple[str, Comparison]], row: Callable[[Comparison], Row]) -> str:
    """Of cycles or bytes: SCALE-Sim's, each cause, the code's, and what remains."""

    def cells(c: Comparison) -> list[str]:
        found = row(c)
        numbers = (found.scale_sim, *found.causes.values(), found.measured)
        return [*map(number, numbers), percent(found.residual)]

    head = ["layer", "SCALE-Sim", *row(every[0][1]).causes, "chip code", "unexplained"]
    return "\n".join(table(" | ".join(head), lines(every, cells)))


def time_table(every: list[tuple[str, Comparison]]) -> str:
    def cells(c: Comparison) -> list[str]:
        cycles, here = c.there["cycles"], c.here
        return [
            number(cycles),
            percent(c.there["utilisation"]),
            f"{c.traffic.scale_sim / cycles:.1f}",
            number(here.cycles),
            number(here.reported),
            percent(c.layer.macs / MULTIPLIERS / here.cycles),
            percent(min(1, here.bus / here.cycles)),
            percent(here.packets / here.cycles),
        ]

    head = "layer | SCALE-Sim | utilisation | bytes per cycle | chip code | reported | utilisation | bus | core"
    return "\n".join(table(head, lines(every, cells)))


class Basic(torch.nn.Sequential):
    """Linear and ReLU, twice, 32 wide."""

    def __init__(self) -> None:
        layers = [torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU()]
        super().__init__(*layers)


def chip_code(model: torch.nn.Module, x: torch.Tensor) -> tuple[Any, float]:
    """Statistics of a network's chip code in BF16, and its cosine to the float32 model."""
    with torch.no_grad():
        expected = model(x)
    run = compile_model(model, (x,), convert=True).run([to_bfloat16(x)])
    found = run.outputs[0].double().flatten()
    return run.stats, torch.nn.functional.cosine_similarity(found, expected.double().flatten(), 0).item()


def published_table() -> str:
    rows = []
    for name, size, packets in (("GEMM 512^3, B packed", 512, "1.71 M"), ("GEMM 1024^3, B packed", 1024, "13.3 M")):
        case = next(c for c in products() if c.name == name)
        network, given = build(case)
        stats = run_network(network, network.code(), given).stats
        per = stats.packets / case.products
        there = f"{packets} packets, 405 to 468 per tile product"
        rows.append([f"GEMM {size}^3", there, f"{stats.packets / 1e6:.2f} M packets, {per:.1f} per tile product"])
    torch.manual_seed(0)
    stats, cosine = chip_code(Basic().eval(), torch.randn(1, 32))
    ours = f"cosine {cosine:.6f}, {stats.packets:,} packets, no op on the host"
    rows.append(["BasicModule (Linear and ReLU, depth 2, width 32)", "cosine 0.99999, one op on the host", ours])
    torch.manual_seed(0)
    stats, cosine = chip_code(Micro().eval(), torch.randn(1, 32, 32))
    moved = stats.dram_bytes_read + stats.dram_bytes_written
    slots = stats.instructions / (4 * stats.packets)
    there = "119,700 instructions, 28% of slots filled, 289,408 DMA bytes, attention cosine 0.25, GELU on the host"
    ours = f"{stats.instructions:,} instructions, {slots:.0%} of slots filled, {moved:,} DMA bytes, cosine {cosine:.6f}"
    rows.append(["ViT-Micro (32 tokens, width 32, hidden 64, GELU)", there, ours])
    ours = "not run in this form; AlexNet at 224 x 224 is in [isa-codegen.md](../concepts/isa-codegen.md)"
    rows.append(["AlexNetSmall, channel scale 0.01, image of 32 x 32", "cosine 0.996", ours])
    ours = "520 cycles by the same formula ([timing.md](../concepts/timing.md))"
    rows.append(["SDMA tile of 32 x 32, ISA sheet", "520 cycles", ours])
    name = "SDMA tile of a matrix, and 2,048 bytes of a row, DDR4-3200 under Ramulator"
    ours = "within 3% of both ([dram.md](../concepts/dram.md), test/isa/test_dram_banks.py)"
    rows.append([name, "2,331 and 5,125 cycles", ours])
    ours = "45 cycles, in the cycle model and in the RTL tile ([isa-engine.md](../concepts/isa-engine.md))"
    rows.append(["`gemm.vv`, from a row to its result", "45 cycles", ours])
    return "\n".join(table("workload | published | here", rows))
