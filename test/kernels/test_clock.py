# SPDX-License-Identifier: BSD-3-Clause
"""The clock "code": single launches take what their generated code takes, whatever the way in."""

from __future__ import annotations

import os
import subprocess
import sys
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
from torch_atalla import telemetry

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


def test_other_dtypes_are_assumed() -> None:
    x = bf16(64, 64)
    narrow = spent(lambda: torch.sin(x))
    assert narrow.assumed_cycles == 0
    for dtype, factor in ((torch.float16, 1), (torch.float32, 2), (torch.float64, 4)):
        y = x.to(dtype)
        wide = spent(lambda: torch.sin(y))  # noqa: B023
        assert wide.cycles == wide.assumed_cycles == factor * (narrow.cycles - OVERHEAD) + OVERHEAD
        assert wide.dram_bytes_read == factor * narrow.dram_bytes_read
    z = torch.randn(8, dtype=torch.complex64).to("atalla")
    found = spent(lambda: z * z)
    with torch_atalla.chip.clock("model"):
        assert spent(lambda: z * z) == found
    assert found.assumed_cycles == found.cycles > 0
    assert torch_atalla.chip.unknown_costs()["pointwise.mul"] == "complex numbers"


def test_the_model_comes_back() -> None:
    x = bf16(256, 384)
    before = spent(lambda: torch.sin(x)).cycles
    with torch_atalla.chip.clock("model"):
        assert torch_atalla.chip.get_clock() == "model"
        model = spent(lambda: torch.sin(x))
        assert model.cycles == model.assumed_cycles < before / 100
    assert torch_atalla.chip.get_clock() == "code"
    assert spent(lambda: torch.sin(x)).cycles == before
    with pytest.raises(ValueError, match=r'chip.clock: expected "model" or "code", got \'sundial\''):
        torch_atalla.chip.clock("sundial")


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
