# SPDX-License-Identifier: BSD-3-Clause
"""What generated Atalla code costs: `python -m benchmarks.isa_codegen [--write-docs] [--networks] [--export DIR]
[--chip FILE]`.

--networks: the table of whole networks instead of that of kernels (some minutes). --chip: the table of kernels on
another chip.

Packets, cycles and bytes are simulated, the same on every machine. The last column has the cycles that the device
reports for the same launch on the functional engine, which have the overhead of a launch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

import torch_atalla
from tools import isa_exports
from tools.pages import table, write_section
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.program.ir import AnyOperand, Buffer, BufferKind, Launch, LinearProgram, Operand, Port
from torch_atalla.compiler.schedule.chip_model import ChipModel
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.generate import compile_networks
from torch_atalla.compiler.targets.chip.network import Network
from torch_atalla.compiler.targets.chip.place import run_network
from torch_atalla.compiler.targets.functional.pipeline import device_chip
from torch_atalla.isa.engine import Stats

from .isa_cases import BF16, Case, cases

DOCS = Path(__file__).parents[1] / "docs/concepts/isa-codegen.md"


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


def reported_cycles(case: Case) -> int:
    """What the device reports for the case on the functional engine."""
    if case.functional is None:
        return module_cycles(case)
    device = [on_device(x) for x in case.inputs if x is not None]
    return spent(partial(case.functional, *device))


def spent(work: Callable[[], object]) -> int:
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
        return spent(lambda: program(given))


def executed(network: Network, given: list[torch.Tensor]) -> Stats:
    """What the ISA engine counts, on the chip of the process. With banks, cycles depend on where operands lie."""
    options = {"chip": 0, "cores": network.image.cores} if os.environ.get("ATALLA_CHIP_CONFIG") else {}
    return run_network(network, network.code(), given, **options).stats


def cycles(case: Case) -> tuple[int, int]:
    """Of the case's code on one core, and what the device reports. Operands of eager launches are no constants."""
    case = replace(case, constants=()) if case.functional is not None else case
    network, given = build(case, replace(device_chip(), cores=1))
    return executed(network, given).cycles, reported_cycles(case)


def measure(case: Case) -> list[str]:
    network, given = build(case, device_chip())
    stats = executed(network, given)
    per = f"{stats.packets / case.products:.1f}" if case.products else ""
    used = stats.macs / (stats.cycles * 1024) if stats.cycles else 0
    moved = stats.dram_bytes_read + stats.dram_bytes_written
    return [
        case.name,
        f"{stats.packets:,}",
        per,
        f"{stats.instructions:,}",
        f"{stats.cycles:,}",
        f"{used:.0%}",
        f"{stats.utilisation('sdma'):.0%}",
        f"{moved:,}",
        f"{reported_cycles(case):,}",
    ]


HEAD = "kernel | packets | per tile product | instructions | cycles | array | DMA | bytes | reported"
NETWORK_HEAD = "network | calls | functions | packets run | cycles | DMA bytes | cosine to float32"


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
        name, lines = "networks", table(NETWORK_HEAD, network_rows())
    else:
        name, lines = "kernels", table(HEAD, [measure(case) for case in cases()])
    print("\n".join(lines))
    if args.write_docs:
        write_section(DOCS, name, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
