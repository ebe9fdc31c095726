# SPDX-License-Identifier: BSD-3-Clause
"""The page that benchmarks.validate_chip writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tools.isa_exports import Micro
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.place import run_network

from ..isa_cases import products
from ..isa_codegen import build, table
from .cases import Layer
from .causes import Row
from .engines import DEEP_QUEUE, Measured

MULTIPLIERS = 1024  # of the array

INTRO = """# Cycles and traffic beside SCALE-Sim

This page compares both engines with [SCALE-Sim 3](https://github.com/scalesim-project/SCALE-Sim), a public simulator of
systolic arrays that shares no code with this project, and with the published figures of the chip team.

```sh
make validate     # python -m benchmarks.validate_chip --write-docs
```

SCALE-Sim gets the chip's geometry: a weight-stationary array of 32 x 32, a scratchpad of 512 Ki elements for the image
and one for the filters, each half filled while the other half is used, and results of 192 rows (the vector registers).
It runs without a limit on DRAM bandwidth and states the bandwidth that it needs; its own bus model gives each operand a
bus. Convolutions have one image. A product of m x k and k x n is named m x k x n. The estimate is the functional
engine's, chip code is executed by the ISA engine, and both use BF16 and `chip.toml`.

Each cause below is computed from the shapes and the geometry (`benchmarks/validation/causes.py`), not fitted. The
command fails if SCALE-Sim's figure and the causes miss a measured figure by more than 5 %. The last column of a table
is what remains.
"""

ARRAY = """
## Cycles of the array

SCALE-Sim's cycles are those without stalls. For m rows and each pair of tiles of k and n, it takes 32 cycles for the
weights, m for the rows, and 62 to fill and drain the array. In the chip, rows and pushes follow each other in
consecutive cycles, so that the array fills and drains once per launch. The RTL tile of the
[ISA engine](../concepts/isa-engine.md) works this way: its weights move with the rows.

Windows with few channels are loaded in runs of taps, and each run is rounded up to 32. 192 rows of results fit the
vector registers, so each further block of rows pushes all weights again. A factor that the network computes is
transposed by the array. In chip code, the first 32 pushes fill the weight buffer.
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
quarter of the bytes in cycles, and 8 cycles per tile of 2 KiB. Some loads come in larger groups than the SDMA queues,
and the core waits for them ([timing.md](../concepts/timing.md)); beside the other ones, the core computes. The busier
one of the two sets the time of the estimate; where weights come panel by panel, the core's work on the last panel
follows the last load. The last column is the share of the estimate that remains: launch, first load, last store.
"""

CODE = f"""
## Chip code against the estimate

The layers whose executed chip code takes 5 % more or less than the estimate. The estimate assumes that transfers and
products overlap except for one step. The columns were measured:

- Queue: an SDMA engine queues 8 transfers, and a ninth stalls the program, products included. The same code ran on a
  chip file with `sdma.queue_depth` of {DEEP_QUEUE}; the column is the difference.
- Busiest unit: in that run, the larger of packets and bus cycles, minus the estimate's busiest unit. It is negative
  where the estimate lets the core wait for all of an image, of which the code loads later lines under products, and
  where the two SDMA engines hide each other's setup, 8 cycles per tile.
- No overlap: the rest of that run, in which the bus is idle, or no packet issues where packets are the bound. The first
  weights are loaded before the first product, and images are loaded while the first column tiles are computed, so that
  later ones leave the bus idle. A product of one block loads, computes and stores one after the other.
"""

PUBLISHED = """
## Published figures of the chip team

The figures of the chip's own tool chain are from its public repositories, for the workload in the first column.

"""


@dataclass
class Comparison:
    """One layer. deep: its chip code with a deep SDMA queue, where time differs from the estimate."""

    layer: Layer
    there: dict[str, Any]
    here: Measured
    estimate: Row
    executed: Row
    traffic: Row
    busiest: float  # cycles of the estimate's busiest unit
    deep: dict[str, int] | None = None


def page(networks: dict[str, list[Comparison]], published: bool) -> str:
    """The whole page; without the published figures if not asked for, which takes another minute."""
    every = [(name.partition(" ")[0], c) for name, found in networks.items() for c in found]
    text = INTRO + ARRAY + "\n" + array_table(every) + "\n" + TRAFFIC + "\n" + traffic_table(every) + "\n"
    text += TIME + "\n" + time_table(every) + "\n"
    if any(c.deep for _, c in every):
        text += CODE + "\n" + code_table(every) + "\n"
    return text + (PUBLISHED + published_table() + "\n" if published else "")


def number(value: float) -> str:
    return f"{value:,}" if value else ""


def percent(value: float) -> str:
    return f"{value:.1%}"


def lines(every: Iterable[tuple[str, Comparison]], cells: Any) -> list[list[str]]:
    return [[f"{network} {c.layer.name}", *cells(c)] for network, c in every]


def array_table(every: list[tuple[str, Comparison]]) -> str:
    def cells(c: Comparison) -> list[str]:
        *more, first = c.executed.causes.values()
        worst = max(c.estimate.residual, c.executed.residual, key=abs)
        return [
            number(c.estimate.scale_sim),
            *map(number, more),
            number(c.here.array),
            number(first),
            number(c.here.code_array),
            percent(worst),
        ]

    *more, first = every[0][1].executed.causes
    return table(lines(every, cells), ["layer", "SCALE-Sim", *more, "estimate", first, "chip code", "unexplained"])


def traffic_table(every: list[tuple[str, Comparison]]) -> str:
    def cells(c: Comparison) -> list[str]:
        return [
            number(c.traffic.scale_sim),
            *map(number, c.traffic.causes.values()),
            number(c.here.bytes),
            percent(c.traffic.residual),
            number(c.here.code_bytes),
            f"{c.here.code_bytes / c.here.bytes - 1:+.1%}",
        ]

    names = list(every[0][1].traffic.causes)
    return table(
        lines(every, cells), ["layer", "SCALE-Sim", *names, "estimate", "unexplained", "chip code", "to the estimate"]
    )


def time_table(every: list[tuple[str, Comparison]]) -> str:
    def cells(c: Comparison) -> list[str]:
        cycles, here = c.there["cycles"], c.here
        full = c.layer.macs / MULTIPLIERS
        return [
            number(cycles),
            percent(c.there["utilisation"]),
            f"{c.traffic.scale_sim / cycles:.1f}",
            number(here.cycles),
            percent(full / here.cycles),
            number(round(here.waits)),
            "SDMA" if here.sdma - here.waits > here.code_packets else "core",
            number(here.code_cycles),
            percent(full / here.code_cycles),
            percent(1 - c.busiest / here.cycles),
        ]

    use = "utilisation"
    head = ["layer", "SCALE-Sim", use, "bytes per cycle", "estimate", use, "waits", "busiest", "chip code", use, "rest"]
    return table(lines(every, cells), head)


def code_table(every: list[tuple[str, Comparison]]) -> str:
    def cells(c: Comparison) -> list[str]:
        here, deep = c.here, c.deep
        assert deep is not None
        busiest = round(max(deep["packets"], deep["bus"]) - c.busiest)
        queue = here.code_cycles - deep["cycles"]
        rest = deep["cycles"] - here.cycles - busiest
        difference = f"{here.code_cycles / here.cycles - 1:+.0%}"
        limit = "packets" if deep["packets"] > deep["bus"] else "bus"
        return [number(here.cycles), *map(number, (queue, busiest, rest)), number(here.code_cycles), difference, limit]

    head = ["layer", "estimate", "queue", "busiest unit", "no overlap", "chip code", "difference", "bound by"]
    return table(lines([(n, c) for n, c in every if c.deep], cells), head)


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
    return table(rows, ["workload", "published", "here"])
