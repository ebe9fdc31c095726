# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of eager ops
====================

The op registry seen from outside: which op of a graph launches which kernels, and what a second call reuses.

Usage::

    python examples/eager_kernels.py

An exported graph runs eagerly on atalla, node by node, with one log line a launch. What each node did, seen in the
counters, must be what the list of native ops says of it.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from torch_atalla import fallback, ops, telemetry


@torch.library.custom_op("mylib::add_relu", mutates_args=(), device_types="cpu")
def add_relu(x: torch.Tensor, value: float) -> torch.Tensor:
    """An operator of your own, with a kernel for the CPU only: on atalla, it falls back."""
    return torch.relu(x + value)


@add_relu.register_fake
def _(x: torch.Tensor, value: float) -> torch.Tensor:
    return torch.empty_like(x)


class Model(nn.Module):
    """relu, matmul, softmax; a custom operator, for which the chip has no kernel; and a transposed view."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        probabilities = torch.softmax(torch.relu(x) @ self.weight, dim=-1)
        return add_relu(probabilities, -0.01).t()


EXPECTED = {
    "aten.relu.default": "native",
    "aten.mm.default": "native",
    "aten._softmax.default": "native",
    "mylib.add_relu.default": "fallback",
    "aten.permute.default": "view",
}


def registered(op: torch._ops.OpOverload) -> str:
    """What the package says of an op, without running it."""
    if op.is_view:
        return "view"
    return "native" if str(op) in ops.support() else "fallback"


@dataclass
class NodeLog:
    op: torch._ops.OpOverload
    launches: list[telemetry.Launch]
    fallbacks: int
    address: int

    def observed(self) -> str:
        """What the op did when it ran."""
        if self.fallbacks:
            return "fallback"
        return "native" if self.launches else "view"


def first_tensor(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


@dataclass
class EagerRun(torch.fx.Interpreter):
    """Runs a graph op by op and keeps what the counters said about each."""

    module: torch.fx.GraphModule
    log: list[NodeLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.module)

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        torch.atalla.synchronize()
        first, fallbacks = telemetry.counters().launches, fallback.total()
        result = super().call_function(target, args, kwargs)
        if not isinstance(target, torch._ops.OpOverload):
            return result  # picks one of several results
        torch.atalla.synchronize()
        made = telemetry.counters().launches - first
        launches = telemetry.launches()[-made:] if made else []
        self.log.append(NodeLog(target, launches, fallback.total() - fallbacks, first_tensor(result).data_ptr()))
        return result


def print_log(log: list[NodeLog]) -> None:
    for node in log:
        print(f"  {str(node.op):<56} {node.observed()}")
        for launch in node.launches:
            print(
                f"    {launch.kernel:<28} {list(launch.shape)}: {launch.cycles:,} cycles, "
                f"{launch.dram_bytes_read:,} bytes read, {launch.dram_bytes_written:,} written"
            )


@torch.no_grad()
def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")  # torch.export copying its own trees
    torch.manual_seed(0)
    fallback.mode("silent")
    model, x = Model().eval(), torch.randn(4, 8)
    expected = model(x)
    # The exported module has the model's own parameters: they move, as they do for other devices.
    graph = torch.export.export(model, (x,)).run_decompositions().module().to("atalla")
    on_device = x.to("atalla")

    runs, stats, seconds = [EagerRun(graph), EagerRun(graph)], [], []
    for number, run in enumerate(runs, 1):
        start = time.perf_counter()
        found = run.run(on_device)
        seconds.append(time.perf_counter() - start)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
        del found
        run.env.clear()  # the interpreter's last values: nothing of this call stays alive
        stats.append(torch.atalla.memory_stats())
        print(f"call {number}:")
        print_log(run.log)

    seen = {str(node.op): node.observed() for node in runs[0].log}
    assert seen == {str(node.op): registered(node.op) for node in runs[0].log}, "the op list and the counters disagree"
    assert seen == EXPECTED, seen
    print(f"\nthe list of native ops ({len(ops.support())} overloads) says the same of each op as the counters")
    print(f"fallbacks: {', '.join(f'{c.op} ({c.dtypes}) {c.count} times' for c in fallback.stats())}")

    with fallback.mode("error"):
        try:
            EagerRun(graph).run(on_device)
            raise AssertionError("the fallback was forbidden, and nothing was raised")
        except NotImplementedError as error:
            print(f'with fallback.mode("error"): {str(error).splitlines()[0]}')
            assert "mylib::add_relu" in str(error)

    def charges(run: EagerRun) -> list[tuple[str, int]]:
        return [(launch.kernel, launch.cycles) for node in run.log for launch in node.launches]

    first, second = stats
    assert charges(runs[0]) == charges(runs[1]), "the same call is charged the same cycles"
    assert [node.address for node in runs[0].log] == [node.address for node in runs[1].log]
    for key in ("num_device_alloc", "reserved_bytes.all.current"):
        assert first[key] == second[key], f"{key}: {first[key]} after the first call, {second[key]} after the second"
    print("\nreused by the second call:")
    print(f"  DRAM: {second['num_device_alloc']} allocation from the device in all, none by the second call; "
          f"{second['reserved_bytes.all.current']:,} bytes reserved")  # fmt: skip
    print(f"  blocks: the {len(runs[1].log)} results got the addresses of the first call's")
    print("  kernel ids: resolved by name at the first launch of each kernel, then kept")
    print(f"  host time: {seconds[0] * 1e3:.2f} ms, then {seconds[1] * 1e3:.2f} ms (not checked)")
    print("ok")


if __name__ == "__main__":
    main()
