# SPDX-License-Identifier: BSD-3-Clause
"""The cycles that the device reports for launches of Triton kernels: those of their Atalla code."""

import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

import torch_atalla
from torch_atalla import telemetry

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

import kernels  # noqa: E402
import random_kernels  # noqa: E402
import test_triton_code  # noqa: E402
import triton.language as tl  # noqa: E402

from torch_atalla.compiler.targets.chip import clock  # noqa: E402
from torch_atalla.compiler.targets.chip.tile_code import code_of  # noqa: E402
from torch_atalla.compiler.tile import launch  # noqa: E402

OVERHEAD = torch_atalla.chip.config()["launch"]["overhead_cycles"]["value"]


@triton.jit
def total(x, out, rounds, factor, BLOCK: tl.constexpr):
    """Of the first tiles of x."""
    at = tl.arange(0, BLOCK)
    found = tl.zeros([BLOCK], tl.float32)
    for i in range(rounds):
        found += tl.load(x + i * BLOCK + at).to(tl.float32)
    tl.store(out + at, (found * factor).to(out.dtype.element_ty))


@triton.jit
def follow(table, out):
    tl.store(out, tl.load(tl.load(table).to(tl.pointer_type(tl.float32))))


@pytest.fixture(autouse=True)
def code():
    with torch_atalla.chip.clock("code"):
        yield


def spent(call):
    """Of the second call: the first one copies the program to the device."""
    call()
    torch.atalla.synchronize()
    telemetry.reset()
    call()
    torch.atalla.synchronize()
    return telemetry.counters()


def bf16(*sizes, dtype=torch.bfloat16):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype).to("atalla")


def vector_add(n, dtype=torch.bfloat16):
    x, y, out = (bf16(n, dtype=dtype) for _ in range(3))
    return lambda: kernels.vector_add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)


def softmax(rows, columns, dtype=torch.bfloat16):
    x, out, block = bf16(rows, columns, dtype=dtype), bf16(rows, columns, dtype=dtype), triton.next_power_of_2(columns)
    return lambda: kernels.softmax_rows[(3,)](out, x, columns, columns, rows, columns, BLOCK=block, STAGES=2)


def matmul(m, n, k, dtype=torch.bfloat16):
    a, b, c = bf16(m, k, dtype=dtype), bf16(k, n, dtype=dtype), bf16(m, n, dtype=dtype)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4, "ACTIVATION": ""}
    grid = (triton.cdiv(m, 64) * triton.cdiv(n, 64),)
    return lambda: kernels.matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), **blocks)


def attention(causal):
    q, k, v, out, lse = *(bf16(2, 64, 64) for _ in range(4)), bf16(2, 64)
    options = {"BLOCK_M": 32, "BLOCK_N": 32, "WIDTH": 64, "CAUSAL": causal}
    return lambda: kernels.attention[(2, 2)](q, k, v, out, lse, 0.125, 4096, 64, 64, **options)


def layer_norm(rows, n):
    x, out, w, b, mean, rstd = bf16(rows, n), bf16(rows, n), bf16(n), bf16(n), bf16(rows), bf16(rows)
    return lambda: kernels.layer_norm[(rows,)](x, out, w, b, mean, rstd, n, n, 1e-5, BLOCK=256)


def rounds(count):
    x, out = bf16(16 * 128), bf16(128)
    return lambda: total[(2,)](x, out, count, 0.5, BLOCK=128)


def in_place(rows):
    x = bf16(rows, 40)
    return lambda: test_triton_code.running_sums[(1,)](x, x, rows, 40, BLOCK=64)


def parts_of_one_tensor():
    x = bf16(4, 300)
    return lambda: kernels.vector_add[(1,)](x[1], x[2], x[3], 300, BLOCK=512)


def dropout(n):
    x, out = bf16(n), bf16(n)
    return lambda: kernels.seeded_dropout[(triton.cdiv(n, 1024),)](x, out, n, 0.25, 123, BLOCK=1024)


def random_program(seed):
    made = random_kernels.Kernel(seed)
    kernel = test_triton_code.compiled(made.source, f"clock{seed}")
    x, y, out = bf16(made.rows, made.columns), bf16(made.columns + made.rows), bf16(made.rows, made.columns)
    return lambda: kernel[made.grid](x, y, out, made.rows, made.columns, 0.75)


CASES = {
    **{f"vector_add {n}": (vector_add, n) for n in (1, 1000, 1025, 5000)},
    **{f"softmax {shape}": (softmax, *shape) for shape in ((5, 32), (33, 1000), (40, 70))},
    **{f"matmul {sizes}": (matmul, *sizes) for sizes in ((64, 64, 32), (130, 70, 100), (1, 200, 33))},
    **{f"attention {causal}": (attention, causal) for causal in (False, True)},
    **{f"rounds {count}": (rounds, count) for count in (0, 1, 2, 9)},
    "layer_norm": (layer_norm, 3, 600),
    "in place": (in_place, 6),
    "parts of one tensor": (parts_of_one_tensor,),
    "dropout": (dropout, 1500),
    **{f"random {seed}": (random_program, seed) for seed in range(8)},
}


@pytest.mark.parametrize("case", CASES)
def test_launches_take_what_their_code_takes(case):
    make, *sizes = CASES[case]
    call = make(*sizes)
    found = spent(call)
    with torch_atalla.chip.engine("isa") as engine:
        call()
    assert (found.launches, found.assumed_cycles) == (1, 0)
    assert found.cycles - OVERHEAD == engine.stats.cycles
    assert found.dram_bytes_read == engine.stats.dram_bytes_read
    assert found.macs == engine.stats.macs


def test_counts_of_loops():
    each = [spent(rounds(count)).cycles for count in (1, 2, 9)]
    assert each[0] < each[1] < each[2]
    assert each[2] - each[1] > 4 * (each[1] - each[0])


@pytest.mark.parametrize("make", [lambda **given: vector_add(3000, **given), lambda **given: softmax(9, 200, **given),
                                  lambda **given: matmul(70, 64, 64, **given)])  # fmt: skip
def test_other_dtypes_are_assumed(make):
    narrow = spent(make())
    for dtype, factor in ((torch.float16, 1), (torch.float32, 2)):
        wide = spent(make(dtype=dtype))
        assert wide.cycles == wide.assumed_cycles
        assert wide.cycles == pytest.approx(factor * (narrow.cycles - OVERHEAD) + OVERHEAD, rel=0.02)


def test_code_is_generated_when_a_clock_is_read():
    """Once for launches that differ in fractions and places in memory."""
    x, out = bf16(4, 640), bf16(4, 128)
    torch.atalla.synchronize()
    telemetry.reset()
    before = code_of.cache_info().misses
    with mock.patch.object(clock, "run_tile_program", wraps=clock.run_tile_program) as run:
        for i in range(4):
            total[(3,)](x[i], out[i], 5, 0.5 + i, BLOCK=128)
        torch.atalla.synchronize()
        assert (run.call_count, code_of.cache_info().misses) == (0, before)
        assert telemetry.counters().launches == 4
        assert run.call_count == 1


def test_graphs():
    call = matmul(64, 64, 96)
    expected = spent(call).cycles
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph):
        call()
    assert spent(graph.replay).cycles == expected


def test_unknown_launches_are_assumed():
    call = vector_add(777)
    with torch_atalla.chip.clock("roofline"):
        call()
    torch.atalla.synchronize()
    telemetry.reset()
    call()
    with mock.patch.dict(launch.known, clear=True):
        torch.atalla.synchronize()
        found = telemetry.counters()
    assert found.launches == 1
    assert 0 < found.assumed_cycles == found.cycles
    assert "neither launched nor compiled" in torch_atalla.chip.unknown_costs()["tile_program"]


def test_addresses_in_memory_are_assumed():
    x = torch.ones(4, device="atalla")
    table, out = torch.tensor([x.data_ptr()], device="atalla"), torch.empty(1, device="atalla")
    found = spent(lambda: follow[(1,)](table, out))
    assert 0 < found.assumed_cycles == found.cycles < 1000


class Sum(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        kernels.vector_add[(2,)](x, y, out, 2000, BLOCK=1024)
        return out


def test_loadables(tmp_path: Path):
    """A loadable in the process that compiled it, and in another one."""
    x, y = bf16(2000), bf16(2000)
    path = str(tmp_path / "sum.atl")
    torch_atalla.save_loadable(Sum(), path, args=(x, y), fallback="error")
    loaded = torch_atalla.load_loadable(path)
    assert torch.equal(loaded(x, y), x + y)
    assert spent(lambda: loaded(x, y)).assumed_cycles == 0
    text = (
        "import sys, torch, torch_atalla; from torch_atalla import telemetry\n"
        "x = torch.ones(2000, dtype=torch.bfloat16, device='atalla')\n"
        "loaded = torch_atalla.load_loadable(sys.argv[1]); telemetry.reset()\n"
        "y = loaded(x, x); torch.atalla.synchronize(); c = telemetry.counters()\n"
        "print(y.sum().item(), 0 < c.assumed_cycles < c.cycles)\n"  # a copy beside the kernel
    )
    done = subprocess.run([sys.executable, "-c", text, path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4000.0", "True"]
