# SPDX-License-Identifier: BSD-3-Clause
"""How well the caching allocator uses DRAM while models train: `python -m benchmarks.fragmentation [--write-docs]`.

Each trace is some steps of a model whose tensors change their sizes. Counters of the allocator are read after it, and
the trace then runs again under smaller and smaller limits (`set_per_process_memory_fraction`): the smallest one under
which it still succeeds is the memory that the model needs with this allocator. Nothing depends on the clock.
--write-docs: the table of docs/concepts/memory.md.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import torch_atalla
from tools.pages import table, write_section

from .loadable.models import Gpt, ResNet18

PAGE = Path(__file__).resolve().parents[1] / "docs/concepts/memory.md"
MIB = 1 << 20
PRECISION = 0.01  # of the smallest limit, as a part of the peak
DEVICE = "atalla"

Step = Callable[[], object]


def _draw(low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, ()))


def _gpt(optimizer: type[torch.optim.Optimizer], length: Callable[[], int], recompute: bool = False) -> Iterator[Step]:
    model = Gpt(vocabulary=8192).to(DEVICE)
    trained = optimizer(model.parameters(), lr=1e-3)

    def forward(ids: torch.Tensor) -> torch.Tensor:
        if not recompute:
            return model(ids)
        x = model.tokens(ids) + model.positions(torch.arange(ids.shape[1], device=DEVICE))
        for block in model.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return F.linear(model.norm(x), model.tokens.weight)

    def step() -> None:
        ids = torch.randint(0, 8192, (4, length() + 1)).to(DEVICE)
        trained.zero_grad()
        logits = forward(ids[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        trained.step()

    while True:
        yield step


def _resnet(size: Callable[[], int], batch: Callable[[], int], evaluate: bool = False) -> Iterator[Step]:
    model = ResNet18().to(DEVICE)
    trained = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    loss = nn.CrossEntropyLoss()

    def train() -> None:
        side, images = size(), batch()
        x = torch.randn(images, 3, side, side).to(DEVICE)
        trained.zero_grad()
        loss(model.train()(x), torch.randint(0, 1000, (images,)).to(DEVICE)).backward()
        trained.step()

    def validate() -> None:
        with torch.no_grad():
            side = size()
            model.eval()(torch.randn(2 * batch(), 3, side, side).to(DEVICE)).argmax(1).cpu()

    while True:
        yield train
        yield validate if evaluate else train


def _decode() -> Iterator[Step]:
    """A cache of keys and values that torch.cat makes longer with each token, for several requests in turns."""
    caches: list[list[torch.Tensor]] = [[] for _ in range(4)]

    def token() -> None:
        for layers in caches:
            if not layers or layers[0].shape[2] > 600 or _draw(0, 199) == 0:
                layers[:] = [torch.zeros(2, 8, _draw(8, 200), 64, device=DEVICE) for _ in range(6)]
            for i, cache in enumerate(layers):
                layers[i] = torch.cat([cache, torch.ones(2, 8, 1, 64, device=DEVICE)], 2)

    while True:
        yield token


@dataclass(frozen=True)
class Trace:
    name: str
    steps: int
    make: Callable[[], Iterator[Step]]


def traces() -> list[Trace]:
    def fixed(value: int) -> Callable[[], int]:
        return lambda: value

    def between(low: int, high: int, multiple: int = 1) -> Callable[[], int]:
        return lambda: multiple * _draw(low, high)

    sgd, adam = torch.optim.SGD, torch.optim.AdamW
    return [
        Trace("ResNet-18, 8 images of 112 x 112", 6, lambda: _resnet(fixed(112), fixed(8))),
        Trace("ResNet-18, sides of 64 to 160", 12, lambda: _resnet(between(2, 5, 32), fixed(8))),
        Trace("ResNet-18, 1 to 12 images, evaluation in turns", 12, lambda: _resnet(fixed(96), between(1, 12), True)),
        Trace("GPT, SGD, 128 tokens", 6, lambda: _gpt(sgd, fixed(128))),
        Trace("GPT, AdamW, 16 to 256 tokens", 16, lambda: _gpt(adam, between(16, 256))),
        Trace("GPT, AdamW, 16 to 256 tokens, checkpoints", 16, lambda: _gpt(adam, between(16, 256), recompute=True)),
        Trace("caches of 4 requests, made longer by torch.cat", 1200, _decode),
    ]


def run(trace: Trace) -> None:
    torch.manual_seed(0)
    steps = trace.make()
    for _ in range(trace.steps):
        next(steps)()
    torch.atalla.synchronize()


def _clear() -> None:
    gc.collect()
    torch.atalla.synchronize()
    torch.atalla.memory.empty_cache()
    torch.atalla.memory.reset_peak_memory_stats()
    torch.atalla.memory.reset_accumulated_memory_stats()


@dataclass(frozen=True)
class Found:
    name: str
    requests: int  # allocations
    requested: int  # bytes at the peak: what tensors asked for,
    allocated: int  # with sizes rounded up,
    reserved: int  # and with the rest of their segments
    segments: int  # calls of the device
    limit: int  # bytes: the smallest under which the trace succeeds

    @property
    def unused(self) -> float:
        """The part of the reserved bytes that no tensor had at the peak."""
        return 1 - self.allocated / self.reserved


def _succeeds(trace: Trace, limit: int, capacity: int) -> bool:
    _clear()
    torch.atalla.memory.set_per_process_memory_fraction(limit / capacity)
    try:
        run(trace)
    except torch.OutOfMemoryError:
        return False
    finally:
        torch.atalla.memory.set_per_process_memory_fraction(1.0)
    return True


def _smallest_limit(trace: Trace, allocated: int, reserved: int) -> int:
    capacity = torch.atalla.get_device_properties(0).total_memory
    low, high = allocated, reserved
    if _succeeds(trace, low, capacity):
        return low
    while high - low > PRECISION * allocated:
        middle = (low + high) // 2
        if _succeeds(trace, middle, capacity):
            high = middle
        else:
            low = middle
    return high


def measure(trace: Trace) -> Found:
    _clear()
    run(trace)
    stats = torch.atalla.memory.memory_stats()
    requested, allocated, reserved = (
        stats[f"{name}_bytes.all.peak"] for name in ("requested", "allocated", "reserved")
    )
    calls, segments = stats["allocation.all.allocated"], stats["segment.all.allocated"]
    return Found(
        trace.name, calls, requested, allocated, reserved, segments, _smallest_limit(trace, allocated, reserved)
    )


HEAD = (
    "trace | allocations: | requested MiB: | allocated MiB: | reserved MiB: | unused: | segments: | "
    "smallest limit / allocated:"
)


def cells(row: Found) -> list[str]:
    sizes = [f"{size / MIB:.1f}" for size in (row.requested, row.allocated, row.reserved)]
    ratios = [f"{row.unused:.1%}", str(row.segments), f"{row.limit / row.allocated:.2f}"]
    return [row.name, f"{row.requests:,}", *sizes, *ratios]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fragmentation", description=__doc__.splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="only traces whose name has the text")
    parser.add_argument("--settings", default="", metavar="NAME:VALUE", help="of the allocator, as in the environment")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table of {PAGE.name}")
    args = parser.parse_args(argv)
    chosen = [trace for trace in traces() if args.filter in trace.name]
    if not chosen or (args.write_docs and (args.filter or args.settings)):
        parser.error("expected traces: " + ", ".join(trace.name for trace in traces()) + "; all for --write-docs")
    torch.atalla.memory._set_allocator_settings(args.settings)
    with torch_atalla.fallback.mode("error"):
        lines = table(HEAD, [cells(measure(trace)) for trace in chosen])
    print("\n".join(lines))
    if args.write_docs:
        write_section(PAGE, "benchmarks.fragmentation", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
