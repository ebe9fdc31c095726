# SPDX-License-Identifier: BSD-3-Clause
"""Products with quantized weights in today's instruction set: `python -m benchmarks.isa_quantized [--write-docs]`.

The instruction set converts no bytes. But a bfloat16 number holds integers up to 256, so that one element holds two
weights from -7 to 7 as 16 * high + low. Adding 192, where neighbouring bfloat16 numbers are 1 apart, rounds high + low
/ 16 to high. The programs here multiply one row of activations by 32 columns of weights. Cycles are simulated.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import torch_atalla
from tools.pages import table, write_section
from torch_atalla import isa
from torch_atalla.isa import ops
from torch_atalla.quantization import encode

DOCS = Path(__file__).resolve().parents[1] / "docs/concepts/gemm.md"
COLUMNS, DEPTH = 32, 1024  # of the weights
A, W, SCALES, OUT = 0x10000, 0x20000, 0x60000, 0x70000  # addresses of the operands
_SIXTEENTH, _SIXTEEN, _INTEGERS = 0x3D800000, 0x41800000, 0x43400000  # 1 / 16, 16 and 192 as FP32

# Registers: what scalars hold, rows of a tile, and vectors.
_SHAPE_W, _SHAPE_ROW, _DIVIDE, _MULTIPLY, _ROUND, _ADDRESS, _ROWS = 3, 4, 5, 6, 7, 8, 64
_BUFFER = (20, 21)
_SUMS, _FACTORS, _RAW, _HIGH, _LOW = 1, 2, 32, 64, 96


@dataclass(frozen=True)
class Result:
    name: str
    bytes_per_weight: float
    cycles: int
    error: float  # largest, relative to the largest result


def high_and_low(weight: torch.Tensor) -> torch.Tensor:
    """Integers [n, k] from -7 to 7 as bfloat16 [n, k / 2]: weights 64 t + e and 64 t + 32 + e share an element."""
    parts = weight.reshape(len(weight), -1, 2, 32).float()
    return (16 * parts[:, :, 0] + parts[:, :, 1]).reshape(len(weight), -1).bfloat16()


def program(depth: int, pairs: bool) -> isa.Program:
    """One row [depth] times weights [32, depth] and factors per column. pairs: two weights per element."""
    p = isa.Program()
    row = depth // 2 if pairs else depth  # elements of a row of weights
    tiles = row // 32
    p.append(ops.lui_s(_SHAPE_W, (31 << 25 | 31 << 20 | row - 1) >> 7))
    p.append(ops.ori_s(_SHAPE_W, _SHAPE_W, (31 << 25 | 31 << 20 | row - 1) & 127))
    p.append(ops.lui_s(9, 1 << 30 >> 7))  # scratchpad 1
    p.append(ops.or_s(_SHAPE_W, _SHAPE_W, 9))
    p.append(ops.lui_s(_SHAPE_ROW, (depth // 32 - 1 << 25 | 31 << 20) >> 7))
    for register, bits in ((_DIVIDE, _SIXTEENTH), (_MULTIPLY, _SIXTEEN), (_ROUND, _INTEGERS)):
        p.append(ops.lui_s(register, bits >> 7))
    for n in range(max(33, depth // 32 + 2)):
        p.append(ops.li_s(_ROWS + n, n))
    for number, register in enumerate(_BUFFER):
        p.append(ops.li_s(register, 2048 * number))
    p.append(ops.li_s(_ADDRESS, A))
    p.append(ops.scpad_ld(0, _ADDRESS, _SHAPE_ROW))
    for _ in range(32):  # so that every later push enters at column 0
        p.append(ops.lw_vi(0))

    def fetch(tile: int) -> None:
        p.append(ops.li_s(_ADDRESS, W + 64 * tile))
        p.append(ops.scpad_ld(_BUFFER[tile % 2], _ADDRESS, _SHAPE_W))

    def multiply(vectors: int, row: int) -> None:
        p.append(ops.vreg_ld(3, 0, _ROWS + row, 0, 32))
        for n in reversed(range(32)):
            p.append(ops.lw_vi(vectors + n))
        p.append(ops.gemm_vv(_SUMS, 3, _SUMS))

    fetch(0)
    fetch(1)
    for tile in range(tiles):
        for n in range(0, 32, 2):
            p.append(*(ops.vreg_ld(_RAW + i, _BUFFER[tile % 2], _ROWS + i, 1, 32) for i in (n, n + 1)))
        if tile + 2 < tiles:
            fetch(tile + 2)
        if not pairs:
            multiply(_RAW, tile)
            continue
        steps: list[Callable[[int], isa.Instruction]] = [
            lambda n: ops.mul_vs(_HIGH + n, _RAW + n, _DIVIDE, 0),
            lambda n: ops.add_vs(_HIGH + n, _HIGH + n, _ROUND, 0),
            lambda n: ops.sub_vs(_HIGH + n, _HIGH + n, _ROUND, 0),
            lambda n: ops.mul_vs(_LOW + n, _HIGH + n, _MULTIPLY, 0),
            lambda n: ops.sub_vv(_LOW + n, _RAW + n, _LOW + n, 0),
        ]
        for step in steps:
            for n in range(32):
                p.append(step(n))
        multiply(_HIGH, 2 * tile)
        multiply(_LOW, 2 * tile + 1)
    p.append(ops.li_s(_ADDRESS, SCALES))
    p.append(ops.lui_s(9, 31 << 20 >> 7))
    p.append(ops.li_s(10, 64 * (depth // 32 + 1)))
    p.append(ops.scpad_ld(10, _ADDRESS, 9))
    p.append(ops.vreg_ld(_FACTORS, 10, 0, 0, 32))
    p.append(ops.mul_vv(_SUMS, _SUMS, _FACTORS, 0))
    p.append(ops.vreg_st(_SUMS, 10, 0, 0, 32))
    p.append(ops.li_s(_ADDRESS, OUT))
    p.append(ops.scpad_st(10, _ADDRESS, 9))
    p.append(ops.halt_s())
    return p


def scalar_conversion(count: int) -> isa.Program:
    """`count` bytes at W as bfloat16 at OUT, by the scalar core: the only unit that has integers and conversions."""
    p = isa.Program()
    p.append(ops.li_s(1, W))
    p.append(ops.li_s(2, OUT))
    p.append(ops.li_s(3, W + count))
    p.label("loop")
    for word in range(2):
        p.append(ops.lw_s(4 + word, 4 * word, 1))
    for byte in range(8):
        p.append(ops.slli_s(10 + byte, 4 + byte // 4, 24 - 8 * (byte % 4)))
    for byte in range(8):
        p.append(ops.srai_s(10 + byte, 10 + byte, 24))
    for byte in range(8):
        p.append(ops.stbf_s(10 + byte, 10 + byte))
    for byte in range(8):
        p.append(ops.shw_s(10 + byte, 2 * byte, 2))
    p.append(ops.addi_s(2, 2, 16))
    p.append(ops.addi_s(1, 1, 8))
    p.append(ops.blt_s(1, 3, "loop", 0))
    p.append(ops.halt_s())
    return p


def _bits(x: torch.Tensor) -> np.ndarray:
    return x.contiguous().view(torch.int16 if x.element_size() == 2 else torch.int8).numpy()


def _product(name: str, pairs: bool) -> Result:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randint(-7, 8, (COLUMNS, DEPTH), generator=generator)
    a = torch.randn(DEPTH, generator=generator).bfloat16()
    factors = (torch.rand(COLUMNS, generator=generator) + 0.5).bfloat16()
    stored = high_and_low(weight) if pairs else weight.bfloat16()
    p = program(DEPTH, pairs)
    problems = isa.check(p)
    assert not problems, problems[:3]
    data = {A: _bits(a), W: _bits(stored), SCALES: _bits(factors)}
    result = isa.run(p, data)
    found = torch.from_numpy(result.memory(OUT, (COLUMNS,), np.int16).copy()).view(torch.bfloat16).double()
    exact = (a.double() @ weight.double().t()) * factors.double()
    return Result(
        name, stored.nbytes / weight.numel(), result.cycles, ((found - exact).abs().max() / exact.abs().max()).item()
    )


def _conversion() -> Result:
    values = torch.randint(-128, 128, (1024,), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    result = isa.run(scalar_conversion(len(values)), {W: _bits(values)})
    found = torch.from_numpy(result.memory(OUT, (1024,), np.int16).copy()).view(torch.bfloat16).float()
    assert torch.equal(found, values.float())
    bfloat16 = _product("", pairs=False).cycles
    return Result("int8, converted by the scalar core", 1, bfloat16 + result.cycles * COLUMNS * DEPTH // 1024, 0.0)


def _with_instruction(encoding: str, bytes_per_weight: float) -> Result:
    """What the functional engine charges: an instruction that makes bfloat16 numbers of 32 bytes of a vector."""
    x = torch.randn(1, DEPTH).bfloat16().to("atalla")
    encoded = [None if t is None else t.to("atalla") for t in encode(torch.randn(COLUMNS, DEPTH).bfloat16(), encoding)]
    torch.atalla.synchronize()
    torch_atalla.telemetry.reset()
    torch.ops.atalla.quantized_linear(x, *encoded, None, encoding)
    torch.atalla.synchronize()
    cycles = torch_atalla.telemetry.counters().cycles
    return Result(f"{encoding}, with an instruction for bytes", bytes_per_weight, cycles, 0.0)


def results() -> list[Result]:
    return [
        _product("bfloat16", pairs=False),
        _conversion(),
        _product("-7 to 7, two per bfloat16", pairs=True),
        _with_instruction("int8", 1),
        _with_instruction("int4", 0.5),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.isa_quantized", description=__doc__.splitlines()[0])
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/concepts/gemm.md")
    args = parser.parse_args()
    found = results()
    rows = ((r.name, r.bytes_per_weight, f"{r.cycles:,}", f"{r.cycles / found[0].cycles:.2f}") for r in found)
    lines = table("weights | bytes per weight: | cycles: | of bfloat16:", rows)
    print("\n".join(lines))
    if args.write_docs:
        write_section(DOCS, "quantized code", lines)


if __name__ == "__main__":
    main()
