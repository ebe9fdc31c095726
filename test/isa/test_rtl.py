# SPDX-License-Identifier: BSD-3-Clause
"""The systolic tile of csrc/sim/rtl, verilated, against the ISA engine: bits, and cycles against chip.toml."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from tools import rtl
from tools.isa_exports import Micro
from torch_atalla import isa
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.isa import ops

pytestmark = pytest.mark.skipif(not rtl.installed(), reason=rtl.MISSING)

ROOT = Path(__file__).resolve().parents[2]
ARRAY = {
    name: entry["value"] for name, entry in tomllib.loads((ROOT / "csrc/sim/chip.toml").read_text())["array"].items()
}
NAN = 0x7FC00000
SPECIAL = np.array(
    [
        *(0x00000000, 0x7F800000, NAN, 0x7F800001, 0x7FFFFFFF),  # zero, infinity, NaNs
        *(0x00000001, 0x00008000, 0x00008001, 0x00018000, 0x007FFFFF, 0x00400000),  # subnormals, ties of BF16
        *(0x00800000, 0x00810000, 0x7F7F0000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7FFFFF),  # smallest normals, largest numbers
        *(0x3F800000, 0x3F808000, 0x3F818000, 0x40000000, 0x1F800000, 0x20000000, 0x5F800000, 0x60000000),
    ],
    np.uint32,
)


def values(kind: str, generator: np.random.Generator, *shape: int) -> np.ndarray:
    """float32 of a kind of values that takes one path of the adder, the multiplier or the rounding."""
    if kind == "normal":
        return generator.standard_normal(shape).astype(np.float32)
    if kind == "bits":  # all exponents
        return generator.integers(0, 1 << 32, shape, np.uint32).view(np.float32)
    sign = generator.integers(0, 2, shape, np.uint32) << 31
    if kind == "special":
        return (generator.choice(SPECIAL, shape) | sign).view(np.float32)
    if kind == "finite special":
        return (generator.choice(SPECIAL[np.isfinite(SPECIAL.view(np.float32))], shape) | sign).view(np.float32)
    if kind == "few specials":  # in most sums no NaN
        found = values("normal", generator, *shape)
        chosen = generator.random(shape) < 0.02
        return np.where(chosen, values("special", generator, *shape), found)
    low, high = {"tiny": (0, 0x60), "huge": (0xA8, 0xC0), "cancelling": (0x7C, 0x82)}[kind]
    exponent = generator.integers(low, high, shape, np.uint32) << 23
    fraction = generator.integers(0, 1 << 23, shape, np.uint32)
    if kind == "cancelling":  # few bits, so that sums meet zero and ties
        fraction &= 0x780000
    return (sign | exponent | fraction).view(np.float32)


KINDS = ("normal", "bits", "finite special", "few specials", "tiny", "huge", "cancelling")


def operations(generator: np.random.Generator, count: int) -> list[tuple[str, int, int]]:
    """Pushes of v1 to v63, and rows of v64 to v127 with sums of v128 to v159, in any order."""
    pick = generator.integers
    found = [("push", int(pick(1, 64)), 0) for _ in range(pick(20, 34))]
    for _ in range(count):
        row = generator.random() < 0.6
        found.append(("row" if row else "push", int(pick(64, 128) if row else pick(1, 64)), int(pick(128, 160))))
    return found


def program_of(steps: list[tuple[str, int, int]]) -> isa.Program:
    """Results go to v160 and up."""
    program, result = isa.Program(), 160
    for kind, lanes, sums in steps:
        if kind == "push":
            program.append(ops.lw_vi(lanes))
        else:
            program.append(ops.gemm_vv(result, lanes, sums))
            result += 1
    program.append(ops.halt_s())
    return program


def registers_after(program: isa.Program, start: np.ndarray, array: rtl.SystolicTile | None = None) -> np.ndarray:
    machine = isa.Machine(program, dram_bytes=4096, array=array)
    for number in range(1, 160):
        machine.set_v(number, start[number])
    assert machine.run() == "halted"
    return machine.registers()[1].view(np.uint32)


@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind: str) -> None:
    """In the engine's place, in any order of pushes and rows."""
    found = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        start = values(kind, generator, 160, 32)
        program = program_of(operations(generator, 80))
        expected = registers_after(program, start)
        np.testing.assert_array_equal(registers_after(program, start, rtl.SystolicTile()), expected)
        found.append(expected[160:])
    magnitude = np.concatenate(found).ravel() & 0x7FFFFFFF
    assert len(np.unique(magnitude)) > 5
    if kind in ("few specials", "bits"):
        assert (magnitude == NAN).any()
    if kind in ("few specials", "huge"):
        assert (magnitude == 0x7F800000).any()
    if kind == "tiny":
        assert ((magnitude > 0) & (magnitude < 0x00800000)).any()


def test_every_special_sum_and_product() -> None:
    """All pairs of special values, once as a product, and once as the sum of a product with one and `sums`."""
    signed = np.concatenate([SPECIAL, SPECIAL | 0x80000000]).view(np.float32)
    pairs = [(a, b) for a in signed for b in signed]
    for begin in range(0, len(pairs), 30):
        part = pairs[begin : begin + 30]
        start = np.zeros((160, 32), np.float32)
        start[63, 0] = 1
        steps = [("push", 62, 0)] * 32
        for i, (a, b) in enumerate(part):  # lane 0 and column 0; the other lanes add zeros
            start[[1 + i, 64 + i, 128 + i], 0] = b, a, b
            steps += [("push", 1 + i, 0), ("row", 64 + i, 159), ("push", 63, 0), ("row", 64 + i, 128 + i)]
        program = program_of(steps)
        found, expected = registers_after(program, start, rtl.SystolicTile()), registers_after(program, start)
        np.testing.assert_array_equal(found, expected)


def test_cycles() -> None:
    """An operation per cycle; each result comes array.latency_cycles after its row was issued."""
    assert ARRAY["row_cycles"] == ARRAY["weight_cycles"] == 1
    generator = np.random.default_rng(0)
    start = values("normal", generator, 160, 32)
    steps = operations(generator, 100)
    expected = registers_after(program_of(steps), start)[160:]
    tile, issued, results = rtl.SystolicTile(), [], []
    queue = steps + [None] * ARRAY["latency_cycles"]
    cycle = 0
    while queue:
        step = None if generator.random() < 0.2 else queue.pop(0)  # a fifth of the cycles are idle
        push = start[step[1]] if step and step[0] == "push" else None
        row = (start[step[1]], start[step[2]]) if step and step[0] == "row" else None
        if row:
            issued.append(cycle)
        found = tile.clock(push, row)
        if found is not None:  # at the output after this cycle: an operation of the next one can use it
            results.append((cycle + 1, found.view(np.uint32)))
        cycle += 1
    assert [at for at, _ in results] == [at + ARRAY["latency_cycles"] for at in issued]
    np.testing.assert_array_equal(np.array([bits for _, bits in results]), expected[: len(results)])
    assert len(results) > 40


def round_bf16(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), np.uint32(NAN), rounded).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("rows", "columns", "group"), [(8, 16, 8), (5, 3, 1)])
def test_sizes(rows: int, columns: int, group: int) -> None:
    """Other sizes against NumPy."""
    generator = np.random.default_rng(1)
    tile = rtl.SystolicTile(rows, columns, group)
    pushed: list[np.ndarray] = []
    for step in range(200):
        if step < columns or generator.random() < 0.3:
            lanes = values("few specials", generator, rows)
            tile.push(lanes)
            filled = len(pushed) < columns
            pushed = [*pushed, lanes] if filled else [lanes, *pushed[:-1]]
            continue
        lanes, sums = values("few specials", generator, rows), values("few specials", generator, columns)
        weights = round_bf16(np.array(pushed).T.copy())
        total = np.zeros(columns, np.float32)
        with np.errstate(all="ignore"):
            for k in range(rows):
                total = total + round_bf16(lanes)[k] * weights[k]
            expected = round_bf16(total) + sums
        expected = np.where(np.isnan(expected), np.uint32(NAN), expected.view(np.uint32))
        np.testing.assert_array_equal(tile.row(lanes, sums).view(np.uint32), expected)
    assert tile.latency == 1 + rows + (columns // group - 1) + 5


def test_whole_program() -> None:
    """A product in Atalla code, C (48 x 32) = A (48 x 64) times W (32 x 64) transposed: the known one, random ones."""
    program = isa.read_text_image(ROOT / "test/data/gemm_48x64x32.in")
    tile = rtl.SystolicTile()
    run = isa.run(program, array=tile)
    assert run.memory(0xC000, 3072).tobytes() == (ROOT / "test/data/gemm_48x64x32.out").read_bytes()
    assert tile.latency == ARRAY["latency_cycles"]
    generator = np.random.default_rng(2)
    for kind in ("normal", "few specials"):
        data = values(kind, generator, 80, 64).view(np.uint32) >> 16
        memory = {0x4000: data[:48].astype(np.uint16), 0x8000: data[48:].astype(np.uint16)}
        expected, found = isa.run(program, memory), isa.run(program, memory, array=rtl.SystolicTile())
        assert found.stats == expected.stats
        np.testing.assert_array_equal(found.memory(0xC000, 3072), expected.memory(0xC000, 3072))
        assert len(np.unique(expected.memory(0xC000, 1536, np.uint16))) > 500


def test_network() -> None:
    """A transformer block as the compiler's Atalla code: products, attention, transposes and sums through the array."""
    torch.manual_seed(0)
    x = torch.randn(1, 32, 32)
    compiled = compile_model(Micro().eval(), (x,), convert=True)
    expected = compiled.run([to_bfloat16(x)])
    found = compiled.run([to_bfloat16(x)], array=rtl.SystolicTile())
    assert found.stats == expected.stats and expected.stats.macs > 1024 * 100
    assert torch.equal(found.outputs[0].view(torch.int16), expected.outputs[0].view(torch.int16))


def test_misuse() -> None:
    machine = isa.Machine(isa.assemble("nop.s\nhalt.s"), dram_bytes=4096, array=rtl.SystolicTile())
    machine.run()
    tile = rtl.SystolicTile()
    with pytest.raises(isa.ExecutionError, match="the machine has run"):
        machine.replace_array(tile)
