# SPDX-License-Identifier: BSD-3-Clause
"""What generated Atalla code costs: `python -m benchmarks.isa_codegen [--write-docs] [--networks] [--export DIR]
[--chip FILE]`.

--networks: the table of whole networks instead of that of kernels (some minutes). --chip: the table of kernels on
another chip, for both engines; docs/reference/two-engines.md has the deviations.

Packets, cycles and bytes are simulated, the same on every machine. The last columns are the cycles that the functional
engine's analytic model charges for the same launch, and how far they are from the ISA engine's.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean

import torch

import torch_atalla
from tools import isa_exports
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.program.ir import AnyOperand, Buffer, BufferKind, Launch, LinearProgram, Operand, Port
from torch_atalla.compiler.schedule.chip_model import ChipModel
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.estimate import estimates
from torch_atalla.compiler.targets.chip.generate import compile_networks
from torch_atalla.compiler.targets.chip.network import Network
from torch_atalla.compiler.targets.chip.place import ALIGN, place_network, run_network
from torch_atalla.compiler.targets.functional.pipeline import device_chip
from torch_atalla.isa.engine import Machine, Stats
from torch_atalla.isa.table import PACKET_BYTES

from .isa_cases import BF16, Case, cases

DOCS = Path(__file__).parents[1] / "docs/concepts/isa-codegen.md"


DISTANCES = range(2 * ALIGN, 16 * ALIGN, 2 * ALIGN)  # between operands, of which cycles are the mean


def build(case: Case, chip: ChipModel | None = None) -> tuple[Network, list[torch.Tensor]]:
    """The code of a case, divided among the cores of a chip."""
    program, given = case_program(case)
    return compile_networks([program], {}, [""], chip)[0], given


def case_program(case: Case) -> tuple[LinearProgram, list[torch.Tensor]]:
    program, given = LinearProgram(), []
    operands: list[AnyOperand] = []

    def operand(value: torch.Tensor, kind: BufferKind, name: str) -> Operand:
        flat = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
        index = len(program.buffers)
        constant = flat if kind is BufferKind.CONSTANT else None
        program.buffers.append(Buffer(index, kind, name, value.untyped_storage().nbytes(), constant))
        return Operand(index, 2 * int(value.storage_offset()), tuple(value.shape), tuple(value.stride()), value.dtype)

    for i, value in enumerate(case.inputs):
        if value is None:
            operands.append(None)
            continue
        kind = BufferKind.CONSTANT if i in case.constants else BufferKind.INPUT
        operands.append(place := operand(value, kind, f"in{i}"))
        if kind is BufferKind.INPUT:
            program.inputs.append(Port(f"in{i}", place))
            given.append(value)
    out = operand(case.out, BufferKind.OUTPUT, "out")
    program.outputs.append(Port("out", out))
    outputs = (out, *[None] * case.extra_outputs)
    launch = Launch(case.kernel, outputs, tuple(operands), BF16)
    program.instructions.append(launch.with_parameters(**case.parameters))
    return program, given


def analytic_cycles(case: Case) -> int:
    """What the functional engine charges for the case."""
    if case.functional is None:
        return module_cycles(case)
    device = [on_device(x) for x in case.inputs if x is not None]
    return charged(partial(case.functional, *device))


def charged(work: Callable[[], object]) -> int:
    """By the model of launches, which does not look at the code."""
    with torch_atalla.chip.clock("model"):
        torch.accelerator.synchronize()
        before = torch_atalla.telemetry.counters().cycles
        work()
        torch.accelerator.synchronize()
        return torch_atalla.telemetry.counters().cycles - before


def on_device(x: torch.Tensor) -> torch.Tensor:
    """With the same strides, broadcast dimensions too."""
    storage = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).to("atalla")
    return storage.as_strided(x.shape, x.stride(), x.storage_offset())


def module_cycles(case: Case) -> int:
    """Of a module's loadable, which makes one launch of what eager mode makes several of, or writes less."""
    x = case.inputs[0]
    assert case.module is not None and x is not None
    x = x.squeeze(2) if x.ndim == 5 else x
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "module.atl"
        torch_atalla.save_loadable(case.module, path, args=(x,), fallback="error", optimize="fast", epilogue=True)
        program = torch_atalla.load_loadable(path)
        given = x.to("atalla")
        return charged(lambda: program(given))


def executed(network: Network, given: list[torch.Tensor]) -> Stats:
    """What the ISA engine counts. On another chip than the built-in one, in the DRAM of device 1, which has no other
    use."""
    if not os.environ.get("ATALLA_CHIP_CONFIG"):
        return run_network(network, network.code(), given).stats
    return profiled(network, given)[0]


def profiled(
    network: Network, given: list[torch.Tensor], distance: int | None = None
) -> tuple[Stats, dict[str, list[int]]]:
    """The same in the DRAM of device 1, and the addresses of the packets of each function that ran."""
    torch.ones(1, device="atalla:1")
    code = network.code()
    placed = place_network(network, given) if distance is None else place_network(network, given, distance=distance)
    machine = Machine(code, placed.memory, args=(placed.table,), device=1, cores=network.image.cores)
    machine.run()
    ran = machine.profile() != 0
    return machine.stats(), {
        name: [
            at
            for at in range(f.address, f.address + len(f.packets) * PACKET_BYTES, PACKET_BYTES)
            if ran[at // PACKET_BYTES]
        ]
        for name, f in network.image.functions.items()
    }


def cycles(case: Case) -> tuple[int, int]:
    """The ISA engine's cycles and the analytic model's, on the chip of the process."""
    chip = device_chip()
    network, given = build(case, chip)
    if not os.environ.get("ATALLA_CHIP_CONFIG"):
        return run_network(network, network.code(), given).stats.cycles, analytic_cycles(case)
    # In a DRAM with banks, cycles depend on where operands lie.
    runs = [profiled(network, given, distance) for distance in DISTANCES]
    analytic = sum(cycles or 0 for cycles in estimates(network, chip, runs[0][1]))
    return round(fmean(stats.cycles for stats, _ in runs)), analytic


def measure(case: Case) -> list[str]:
    network, given = build(case)
    stats = executed(network, given)
    model = analytic_cycles(case)
    per = f"{stats.packets / case.products:.1f}" if case.products else ""
    used = stats.macs / (stats.cycles * 1024) if stats.cycles else 0
    moved = stats.dram_bytes_read + stats.dram_bytes_written
    deviation = f"{model / stats.cycles - 1:+.0%}" if model else ""
    return [
        case.name,
        f"{stats.packets:,}",
        per,
        f"{stats.instructions:,}",
        f"{stats.cycles:,}",
        f"{used:.0%}",
        f"{stats.utilisation('sdma'):.0%}",
        f"{moved:,}",
        f"{model:,}",
        deviation,
    ]


HEAD = [
    "kernel",
    "packets",
    "per tile product",
    "instructions",
    "cycles",
    "array",
    "DMA",
    "bytes",
    "analytic model",
    "deviation",
]


def table(rows: list[list[str]], head: list[str]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


NETWORK_HEAD = ["network", "calls", "functions", "packets run", "cycles", "DMA bytes", "cosine to float32"]


def network_rows() -> list[list[str]]:
    """Whole networks in bfloat16 against the float32 model on the CPU."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "test/support"))
    import isa_networks

    rows = []
    for name, make in isa_networks.NETWORKS.items():
        torch.manual_seed(0)
        model, args = make()
        with torch.no_grad():
            expected = model(*args)
        compiled = compile_model(model, args, convert=True)
        run = compiled.run([to_bfloat16(x) for x in args])
        image, stats = compiled.network.image, run.stats
        found = run.outputs[0].double().flatten()
        cosine = torch.nn.functional.cosine_similarity(found, expected.double().flatten(), 0).item()
        packets = f"{stats.packets:,}"
        if name.startswith("ViT-Micro"):
            packets += f" ({stats.instructions:,} instructions)"
        moved = stats.dram_bytes_read + stats.dram_bytes_written
        numbers = [f"{len(image.calls)}", f"{len(image.functions)}", packets, f"{stats.cycles:,}", f"{moved:,}"]
        rows.append([name, *numbers, f"{cosine:.6f}"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.isa_codegen", description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help="write the table into docs/concepts/isa-codegen.md")
    parser.add_argument("--networks", action="store_true", help="whole networks instead of single kernels")
    parser.add_argument("--export", metavar="DIR", type=Path, help="write .in programs there instead")
    parser.add_argument("--chip", metavar="FILE", help="chip file of both engines; nothing is written")
    args = parser.parse_args()
    if args.chip:
        if args.networks or args.write_docs:
            parser.error("--chip: expected the table of kernels, without --networks and --write-docs")
        os.environ["ATALLA_CHIP_CONFIG"] = args.chip
    if args.export:
        print(isa_exports.write(args.export))
        return 0
    if args.networks:
        name, text = "networks", table(network_rows(), NETWORK_HEAD)
    else:
        name, text = "kernels", table([measure(case) for case in cases()], HEAD)
    print(text)
    if args.write_docs:
        old = DOCS.read_text()
        new = re.sub(rf"(<!-- {name} -->\n).*?(\n+<!-- end -->)", lambda m: m[1] + text + m[2], old, flags=re.S)
        DOCS.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
