# SPDX-License-Identifier: BSD-3-Clause
"""Executed cycles of Triton kernels as Atalla code beside those of the built-in kernels, and of programs in assembly:
`python -m benchmarks.triton_code [--write-docs]`.

The kernels are those of test/triton/kernels.py, after Triton's tutorials. Cycles are simulated: the same on every
machine. --write-docs: docs/guides/triton-code.md.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import torch_atalla
from torch_atalla import isa
from torch_atalla.compiler.targets.chip import kernels as built_in_kernels
from torch_atalla.compiler.targets.chip.network import NoProgramError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/guides/triton-code.md"
ASSEMBLY = ROOT / "examples/assembly"
DEVICE, BF16 = "atalla", torch.bfloat16


@dataclass(frozen=True)
class Case:
    name: str
    kernel: str  # whose lines are shown
    launch: Callable[[], object]
    built_in: Callable[[], object]
    assembly: str = ""  # the same in examples/assembly
    arguments: tuple[torch.Tensor | int, ...] = ()  # of that program
    generators: str = ""  # files of compiler/targets/chip/kernels with the built-in code


def numbers(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes).to(BF16).to(DEVICE)


def cases() -> list[Case]:
    import triton

    sys.path.insert(0, str(ROOT / "test/triton"))
    import kernels as k

    torch.manual_seed(0)
    n, rows, columns, size = 98_304, 256, 1000, 256
    x, y, out = numbers(n), numbers(n), numbers(n)
    matrix, result = numbers(rows, columns), numbers(rows, columns)
    a, b, c = (numbers(size, size) for _ in range(3))
    w, bias, mean, rstd = numbers(columns), numbers(columns), numbers(rows), numbers(rows).abs()
    grad, groups = numbers(rows, columns), 16
    parts = [numbers(groups, columns) for _ in range(2)]
    sums = [numbers(columns) for _ in range(2)]
    locks = torch.zeros(2 * groups, dtype=torch.int32, device=DEVICE)

    def product(m: int, n: int, k_size: int) -> Callable[[], object]:
        tiles = triton.cdiv(size, m) * triton.cdiv(size, n)
        blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k_size, "GROUP_M": 4, "ACTIVATION": ""}
        return lambda: k.matmul[(tiles,)](a, b, c, size, size, size, size, 1, size, 1, size, 1, **blocks)

    def backward() -> None:
        k.layer_norm_backward[(rows,)](
            result, grad, *parts, matrix, w, mean, rstd, locks, columns, columns, GROUPS=groups, BLOCK=1024
        )

    def whole_backward() -> None:
        backward()
        for part, total in zip(parts, sums, strict=True):
            k.sum_groups[(triton.cdiv(columns, 128),)](part, total, groups, columns, BLOCK_M=32, BLOCK_N=128)

    shown = [mean[:, None], rstd[:, None]]
    return [
        Case(f"vector add, {n:,}", "vector_add", lambda: k.vector_add[(96,)](x, y, out, n, BLOCK=1024), lambda: x + y),
        Case(
            f"softmax, {rows} x {columns}", "softmax_rows",
            lambda: k.softmax_rows[(8,)](result, matrix, columns, columns, rows, columns, BLOCK=1024, STAGES=2),
            lambda: matrix.softmax(1), "softmax", (matrix, result, rows // 32), "rows.py",
        ),
        Case(f"matmul, {size}^3, blocks of 64 x 64 x 32", "matmul", product(64, 64, 32), lambda: a @ b),
        Case(
            f"matmul, {size}^3, blocks of 128 x 128 x 32", "matmul", product(128, 128, 32), lambda: a @ b,
            "matmul", (a, b, c), "gemm*.py",
        ),
        Case(
            "dropout, 8,192", "seeded_dropout",
            lambda: k.seeded_dropout[(8,)](x, out, 8192, 0.5, 123, BLOCK=1024),
            lambda: F.dropout(x[:8192], 0.5),
        ),
        Case(
            f"layer norm, {rows} x {columns}", "layer_norm",
            lambda: k.layer_norm[(rows,)](matrix, result, w, bias, mean, rstd, columns, columns, 1e-5, BLOCK=1024),
            lambda: F.layer_norm(matrix, (columns,), w, bias),
        ),
        Case(
            "layer norm backward", "layer_norm_backward", whole_backward,
            lambda: torch.ops.aten.native_layer_norm_backward(grad, matrix, (columns,), *shown, w, bias, [True] * 3),
        ),
    ]  # fmt: skip


def cycles(work: Callable[[], object], *, again: bool = False) -> int | None:
    """Of all kernels that `work` runs on the ISA engine; None if it has no code.

    again: of a second run. A first one of built-in kernels also brings their program to the device.
    """
    before = 0
    try:
        with torch_atalla.chip.engine("isa"):
            for _ in range(2 if again else 1):
                torch.accelerator.synchronize()
                before = torch_atalla.telemetry.counters().cycles
                work()
    except NoProgramError:
        return None
    torch.accelerator.synchronize()
    return int(torch_atalla.telemetry.counters().cycles - before)


def executed_packets(work: Callable[[], object]) -> int:
    with torch_atalla.chip.engine("isa") as mode:
        work()
        return mode.stats.packets


def code_lines(text: str) -> int:
    """Without blank lines and comments."""
    return sum(not line.strip().startswith("#") for line in text.splitlines() if line.strip())


def table(rows: list[list[str]]) -> str:
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def three_ways(chosen: list[Case]) -> str:
    """Kernels in Triton, in assembly and in the compiler, with cycles, packets and lines of source."""
    import kernels

    folder = Path(built_in_kernels.__path__[0])
    rows = [["", "written in", "cycles", "packets", "lines of source"]]
    for case in chosen:
        kernel, *blocks = case.name.split(", blocks")
        path = ASSEMBLY / f"{case.assembly}.s"
        program = isa.assemble(path.read_text(), str(path))
        arguments = [isa.dram_address(x) if isinstance(x, torch.Tensor) else x for x in case.arguments]
        function = getattr(kernels, case.kernel).fn
        generators = sorted(folder.glob(case.generators))
        ways: list[tuple[str, Callable[[], object], int, str]] = [
            (
                ", blocks".join(["Triton", *blocks]),
                case.launch,
                executed_packets(case.launch),
                inspect.getsource(function),
            ),
            (
                f"[{path.name}](../../examples/assembly/{path.name})",
                lambda program=program, arguments=arguments: isa.launch(program, args=arguments),
                isa.launch(program, args=arguments).packets,
                path.read_text(),
            ),
            (
                f"Python, `{case.generators}`",
                case.built_in,
                executed_packets(case.built_in),
                "\n".join(p.read_text() for p in generators),
            ),
        ]
        for name, work, count, text in ways:
            rows.append([kernel, name, f"{cycles(work, again=True):,}", f"{count:,}", f"{code_lines(text):,}"])
    return table(rows)


def by_line(case: Case) -> str:
    """The lines of a kernel's source with their packets and cycles."""
    import kernels

    found: dict[int, tuple[int, int]] = {}
    with torch_atalla.chip.engine("isa") as mode:
        mode.lines = found
        case.launch()
        whole = mode.stats.cycles
    function: Any = getattr(kernels, case.kernel)
    first = function.starting_line_number
    rows = [["line", "packets", "cycles", "share"]]
    for number, text in enumerate(function.raw_src, first):
        if number in found:
            packets, spent = found[number]
            code = text.strip().replace("|", "\\|")
            rows.append([f"`{code}`", f"{packets:,}", f"{spent:,}", f"{spent / whole:.1%}"])
    packets, spent = found[0]
    rows.append(["(the driver, and the last transfers)", f"{packets:,}", f"{spent:,}", f"{spent / whole:.1%}"])
    return table(rows)


def listing(case: Case, packets: int) -> str:
    """The first packets that do the vector work of vector add."""
    import kernels

    x = numbers(1024)
    text = kernels.vector_add.warmup(x, x, x, 1024, grid=(1,), BLOCK=1024, code=True).asm["atalla"].splitlines()
    first = next(i for i, line in enumerate(text) if "add.vv" in line)
    return "\n".join(line.strip() for line in text[first - packets // 2 : first + packets // 2])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triton_code", description=__doc__.splitlines()[0])
    parser.add_argument("--write-docs", action="store_true", help="write docs/guides/triton-code.md")
    args = parser.parse_args()
    rows = [["", "Triton, cycles", "built-in, cycles", "ratio"]]
    chosen = cases()
    for case in chosen:
        mine, theirs = cycles(case.launch), cycles(case.built_in, again=True)
        ratio = f"{mine / theirs:.2f}" if mine and theirs else ""
        rows.append([case.name, f"{mine:,}" if mine else "no code", f"{theirs:,}" if theirs else "no code", ratio])
        print(rows[-1], flush=True)
    text = f"""# Cycles of Triton kernels as Atalla code

This page compares the cycles of Triton kernels with those of the built-in kernels, both as Atalla code on the ISA
engine, in bfloat16. It is generated by `python -m benchmarks.triton_code --write-docs`.
[The tutorial](../tutorials/triton-kernel.md) explains the code, and how to measure a kernel of your own.

{table(rows)}

## Softmax and matmul in assembly

The same kernels in Triton, by hand in [assembly](../tutorials/assembly.md), and as built-in code. The assembly is for
few sizes, and matmul.s for finite numbers; its comments explain it. The built-in code is generated for all sizes, by
Python files of torch_atalla/compiler/targets/chip/kernels; rows.py also has norms. Lines of source are those that are
neither blank nor a comment.

{three_ways([case for case in chosen if case.assembly])}

## Cycles by line

Of `softmax_rows` (test/triton/kernels.py) on {chosen[1].name.removeprefix("softmax, ")}. Cycles of waiting for a
transfer count for the line that waits.

{by_line(chosen[1])}

## Packets

Of `vector_add`, from the loads of vectors on:

```text
{listing(chosen[0], 12)}
```
"""
    print(text)
    if args.write_docs:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
