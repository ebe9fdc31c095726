# SPDX-License-Identifier: BSD-3-Clause
"""The clock "code": single launches take what their generated code takes, whatever the way in."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from chip_op_calls import fast_calls
from example_calls import overload
from torch.utils import _pytree as pytree

import torch_atalla
from tools.clock_sweep.launches import apart, measured_launches
from torch_atalla import charges, telemetry
from torch_atalla.driver.extension import _C

OVERHEAD = torch_atalla.chip.config()["launch"]["overhead_cycles"]["value"]
# Ops whose code is of each kind: vector unit, array, rows, reductions, scalar core, sorting, indices.
OPS = """
_log_softmax abs amax argmax avg_pool2d bmm clamp.Tensor cummax cumprod div.Tensor elu erf exp flip floor gather
gt.Tensor index_select le.Scalar maximum mul.Tensor native_layer_norm neg pow.Tensor_Scalar prod.dim_int relu
remainder.Tensor rsqrt sigmoid sin sort sub.Tensor sum tanh topk triu
""".split()


@pytest.fixture(autouse=True)
def code() -> Iterator[None]:
    with torch_atalla.chip.clock("code"):
        yield


def spent(call: Callable[[], Any]) -> telemetry.Counters:
    """Of a call that has run before."""
    torch.atalla.synchronize()
    telemetry.reset()
    call()
    torch.atalla.synchronize()
    return telemetry.counters()


def bf16(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).bfloat16().to("atalla")


def test_ops_take_what_their_code_takes() -> None:
    """Against the op as a program of its own, which goes another way: exported, lowered, fused."""
    ratios, apart = [], []
    for name in OPS:
        function = overload(name)
        for call in fast_calls(name):
            args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.to("atalla"), tuple(call))
            with torch.no_grad():
                found = spent(lambda: function(*args, **kwargs))  # noqa: B023
                if found.launches != 1 or found.assumed_cycles:
                    continue
                with torch_atalla.chip.engine("isa") as engine:
                    function(*args, **kwargs)
            ratios.append((found.cycles - OVERHEAD) / engine.stats.cycles)
            if not 0.9 <= ratios[-1] <= 1.1:
                apart.append((name, call, ratios[-1]))
    assert len(ratios) >= 40
    assert not apart
    assert sum(abs(ratio - 1) <= 0.02 for ratio in ratios) >= 0.9 * len(ratios)  # some depend on values


def test_bytes_at_odd_addresses() -> None:
    """They pass through the scalar core one by one."""
    truths = torch.zeros(4097, dtype=torch.bool, device="atalla")
    even, odd = (spent(lambda: truths[first:][:4096].bfloat16()).cycles for first in (0, 1))  # noqa: B023
    assert odd > 5 * even


def test_dimensions_and_expanded_operands() -> None:
    """Neighbouring dimensions that a program does not join, and inputs that it would copy, change nothing."""
    block, row = bf16(4, 6, 5), bf16(4, 1, 5)
    for call in (
        lambda: torch.copysign(block, row),
        lambda: row.expand(4, 6, 5) > 0.5,
        lambda: row.transpose(0, 2).to(torch.uint8),
        lambda: row.expand(4, 6, 5).clone(memory_format=torch.contiguous_format),
    ):
        call()
        telemetry.reset()
        call()
        torch.atalla.synchronize()
        reported = telemetry.launches()[-1].cycles - OVERHEAD
        with torch_atalla.chip.engine("isa") as engine:
            call()
        assert reported == engine.stats.cycles


def test_random_launches() -> None:
    rows = measured_launches(60, 0, "pointwise.") + measured_launches(40, 0, "")
    assert [row for row in rows if not row[3] and apart(row) > 0.02] == []


def test_numbers_of_each_step_make_no_new_kind() -> None:
    """As those of a learning rate that decays, which are constants of the code."""
    asked = []

    def provide(*launch: Any) -> bool:
        asked.append(launch)
        return charges.provide(*launch)

    x, y = bf16(37), bf16(37)
    torch.atalla.synchronize()
    telemetry.reset()
    _C.set_charge_provider(provide)
    try:
        for step in range(50):
            x.add_(y, alpha=0.1 / (step + 3)).mul_(0.97**step)
        assert telemetry.counters().launches == 100
        assert 1 <= len(asked) <= 4  # of mul_, with 1 and with others; of add_
    finally:
        charges.use_clock("code")


def test_optimizers_are_charged_for_a_step() -> None:
    """found_inf is drawn, too: with another number than 0, the launch takes less than is charged."""
    rows = measured_launches(12, 0, "optimizer.")
    assert any(why for _, _, _, why in rows)
    for _, reported, executed, why in rows:
        assert reported == executed or (why == "values" and reported > executed)


def test_other_dtypes_are_assumed() -> None:
    x = bf16(64, 64)
    narrow = spent(lambda: torch.sin(x))
    assert narrow.assumed_cycles == 0
    for dtype, factor in ((torch.float16, 1), (torch.float32, 2), (torch.float64, 4)):
        y = x.to(dtype)
        wide = spent(lambda: torch.sin(y))  # noqa: B023
        assert wide.cycles == wide.assumed_cycles == factor * (narrow.cycles - OVERHEAD) + OVERHEAD
        assert wide.dram_bytes_read == factor * narrow.dram_bytes_read
    z = torch.randn(64, 64, dtype=torch.complex64).to("atalla")
    pairs = spent(lambda: x * x)
    found = spent(lambda: z * z)
    assert found.assumed_cycles == found.cycles == 4 * (pairs.cycles - OVERHEAD) + OVERHEAD


def test_launches_of_programs() -> None:
    """A product with a vector program takes what the launches take that it joins, joined as code has them. A loadable's
    weights lie in DRAM as code wants them; those of a compiled function may change."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(96, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).bfloat16().eval()
    x = torch.randn(40, 96).bfloat16()
    exported = torch.export.export(model, (x,))
    with tempfile.TemporaryDirectory() as folder:
        torch_atalla.save_loadable(exported, f"{folder}/m.atl")
        loaded = torch_atalla.load_loadable(f"{folder}/m.atl")
    x, model = x.to("atalla"), model.to("atalla")
    compiled = torch.compile(model, backend="atalla")
    with torch.no_grad():
        for way in (loaded, compiled):
            way(x)
        packed, plain = spent(lambda: loaded(x)), spent(lambda: compiled(x))
        with torch_atalla.chip.engine("isa") as engine:
            model(x)
            executed = engine.stats.cycles
    assert packed.launches == plain.launches == 2
    assert 0.99 * plain.cycles < packed.cycles <= plain.cycles
    assert packed.assumed_cycles == plain.assumed_cycles == 0
    assert executed < plain.cycles


def test_programs_tell_kinds_apart() -> None:
    """Launches that differ in nothing but the words of their vector programs, one after another at the same addresses,
    take what each one's code takes."""
    x, y = bf16(64, 64), bf16(64, 64)

    def chain(first: Callable, second: Callable) -> Callable:
        return torch.compile(lambda x, y: second(first(x, y), x), backend="atalla")

    def alone(function: Callable) -> int:
        function(x, y)
        return spent(lambda: function(x, y)).cycles

    ways = [chain(torch.mul, torch.maximum), chain(torch.floor_divide, torch.mul), chain(torch.mul, torch.fmod)]
    each = [alone(way) for way in ways]
    assert len(set(each)) == 3
    together = spent(lambda: [way(x, y) for way in ways * 2])
    assert together.launches == 6
    assert together.cycles == 2 * sum(each)


def test_roofline() -> None:
    x = bf16(256, 384)
    before = spent(lambda: torch.sin(x)).cycles
    with torch_atalla.chip.clock("roofline"):
        assert torch_atalla.chip.get_clock() == "roofline"
        bound = spent(lambda: torch.sin(x))
        assert bound.cycles == bound.assumed_cycles < before / 100
    assert torch_atalla.chip.get_clock() == "code"
    assert spent(lambda: torch.sin(x)).cycles == before
    with pytest.raises(ValueError, match=r'chip.clock: expected "code" or "roofline", got \'sundial\''):
        torch_atalla.chip.clock("sundial")


def test_decorator() -> None:
    """The clock of calls alone changes."""

    @torch_atalla.chip.clock("roofline")
    def inside() -> str:
        return torch_atalla.chip.get_clock()

    assert torch_atalla.chip.get_clock() == "code"
    assert inside() == inside() == "roofline"
    assert torch_atalla.chip.get_clock() == "code"


def test_ways_in() -> None:
    """Modes of dispatch, functorch and autocast, other threads, captured graphs."""
    x = bf16(24, 32)
    plain = spent(lambda: x.softmax(-1)).cycles
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph):
        x.softmax(-1)
    compiled = torch.compile(lambda x: x.softmax(-1))
    compiled(x)

    def in_a_thread() -> None:
        thread = threading.Thread(target=lambda: x.softmax(-1))
        thread.start()
        thread.join()

    with torch.inference_mode():
        assert spent(lambda: x.softmax(-1)).cycles == plain
    for way in (graph.replay, lambda: compiled(x), in_a_thread):
        assert spent(way).cycles == plain
    # Launches that are new in a transform, a mode, and on the thread of a backward pass.
    y, weights = bf16(3, 7), bf16(48, 32).requires_grad_()
    with torch.autocast("atalla", dtype=torch.bfloat16), torch_atalla.chip.engine("functional"):
        assert spent(lambda: torch.vmap(torch.tanh)(y)).assumed_cycles == 0
    found = spent(lambda: F.linear(x, weights).tanh().sum().backward())
    assert found.launches >= 6
    assert found.assumed_cycles == 0


@pytest.mark.parametrize("mode", ["inline", "queued"])
def test_environment(mode: str) -> None:
    text = (
        "import torch, torch_atalla; from torch_atalla import chip, telemetry\n"
        "x = torch.ones(64, 64, dtype=torch.bfloat16, device='atalla'); telemetry.reset()\n"
        "torch.sin(x); torch.atalla.synchronize(); c = telemetry.counters()\n"
        "print(chip.get_clock(), c.launches, c.assumed_cycles, c.cycles)\n"
    )
    environment = os.environ | {"ATALLA_CLOCK": "code", "ATALLA_LAUNCH": mode}
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    x = bf16(64, 64)
    assert done.stdout.split() == ["code", "1", "0", str(spent(lambda: torch.sin(x)).cycles)]
