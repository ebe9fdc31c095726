# SPDX-License-Identifier: BSD-3-Clause
"""Every way in which a tensor changes its place: host, device and second device, over dtypes and strides."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch

from . import inputs
from .paths import on_device
from .values import evaluate

DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int64),
    *(torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.uint16, torch.uint32, torch.uint64),
    torch.float8_e4m3fn,
)
CONVERTED = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)


def strided(rng: Random, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of any rank up to 5, with sizes of 0 and 1, under some strides."""
    rank = rng.randint(0, 5)
    shape = tuple(rng.choice([1, 1, 2, 3, 4, 8, 0] if rng.random() < 0.2 else [1, 1, 2, 3, 4, 8]) for _ in range(rank))
    if 0 in shape or rng.random() < 0.8:
        return evaluate(inputs.tensor(shape, dtype, rng, strange=0.85), {})
    if rng.random() < 0.5:
        return evaluate(inputs.values((*shape, 3), dtype, rng), {}).select(-1, 1)
    return evaluate(inputs.values(shape, dtype, rng), {}).expand(rng.choice([1, 2, 3]), *shape)


def target_like(rng: Random, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Memory to copy into: other strides, no element twice."""
    rank = len(shape)
    order = rng.sample(range(rank), rank) if rng.random() < 0.6 else list(range(rank))
    strides, step = [0] * rank, 1
    for dim in reversed(order):
        strides[dim] = step if shape[dim] != 1 or rng.random() < 0.5 else rng.choice([1, 7])
        step *= max(shape[dim], 1)
    if rng.random() < 0.3:
        strides, step = [2 * s for s in strides], 2 * step
    offset = rng.choice([0, 0, 3])
    return torch.zeros(step + offset + 8, dtype=dtype).as_strided(shape, strides, offset)


Transfer = Callable[[Random, torch.Tensor], Iterator[tuple[str, torch.Tensor, torch.Tensor]]]


def copies(rng: Random, value: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """copy_ between every pair of places, with other strides and now and then another dtype."""
    dtype = value.dtype
    if rng.random() < 0.3 and dtype in CONVERTED:
        dtype = rng.choice(CONVERTED)
    places = ["cpu", "atalla:0", "atalla:1"]
    source, into = rng.choice(places), rng.choice(places[1:] if rng.random() < 0.5 else places)
    blocking = rng.random() < 0.5
    target = target_like(rng, value.shape, dtype)
    expected = torch.zeros_like(target).copy_(value)
    whole = target.as_strided((target.untyped_storage().nbytes() // target.itemsize,), (1,), 0)
    moved = on_device(target, into) if into != "cpu" else target
    given = on_device(value, source) if source != "cpu" else value
    if rng.random() < 0.2 and source == "cpu":
        given = given.pin_memory() if given.numel() and 0 not in given.stride() else given  # upstream refuses overlap
    moved.copy_(given, non_blocking=not blocking)
    if into != "cpu" or source != "cpu":
        torch.accelerator.synchronize(0)
        torch.accelerator.synchronize(1)
    yield f"copy_ {source} -> {into} {'blocking' if blocking else 'non_blocking'}", moved.cpu(), expected
    if into == "cpu":
        outside = whole.clone()
        outside.as_strided(target.shape, target.stride(), target.storage_offset()).zero_()
        yield "copy_ writes outside", outside, torch.zeros_like(outside)


def moves(rng: Random, value: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    dtype = rng.choice(CONVERTED) if rng.random() < 0.3 and value.dtype in CONVERTED else None
    moved = value.to("atalla", dtype=dtype, non_blocking=rng.random() < 0.5)
    expected = value.to(dtype=dtype, copy=True)
    torch.accelerator.synchronize()
    yield "to", moved.cpu(), expected
    yield "to, strides", torch.tensor(moved.stride()), torch.tensor(expected.stride())
    second = moved.to("atalla:1")
    yield "device to device", second.cpu(), expected
    yield "back", second.to("cpu", non_blocking=rng.random() < 0.5) if rng.random() < 0.5 else second.cpu(), expected
    yield "clone", on_device(value).clone().cpu(), value.clone()


def files(rng: Random, value: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    store = io.BytesIO()
    torch.save({"t": on_device(value)}, store)
    store.seek(0)
    loaded = torch.load(store, weights_only=True)["t"]
    yield "torch.save", loaded.cpu(), value
    yield "torch.save, strides", torch.tensor(loaded.stride()), torch.tensor(value.stride())
    store.seek(0)
    yield "torch.load to the CPU", torch.load(store, map_location="cpu", weights_only=True)["t"], value


def states(rng: Random, value: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    if not value.is_floating_point() or value.dtype == torch.float8_e4m3fn:
        return
    module = torch.nn.Module()
    module.register_buffer("b", on_device(target_like(rng, value.shape, value.dtype)))
    module.load_state_dict({"b": value if rng.random() < 0.5 else on_device(value, "atalla:1")})
    yield "load_state_dict", module.get_buffer("b").cpu(), value


def dlpack(rng: Random, value: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    if value.dtype in (torch.float8_e4m3fn,) or not value.numel():
        return
    again = torch.from_dlpack(on_device(value))
    yield "dlpack", again.cpu(), value


KINDS: tuple[Transfer, ...] = (copies, copies, copies, moves, files, states, dlpack)


def check(seed: int, count: int = 200) -> list[dict[str, Any]]:
    """Transfers `count` tensors. Each difference as a problem; a crash ends the process, and the parent sees it."""
    rng = Random(seed)
    problems = []
    for number in range(count):
        torch.manual_seed(seed * 1000 + number)
        dtype = rng.choice(DTYPES)
        value, kind = strided(rng, dtype), rng.choice(KINDS)
        where = f"seed {seed}, tensor {number}: {kind.__name__} of {dtype} {list(value.shape)} {value.stride()}"
        try:
            for what, found, expected in kind(rng, value):
                if found.shape != expected.shape or found.dtype != expected.dtype or not _equal(found, expected):
                    problems.append({"check": "transfer", "category": what, "text": where})
        except Exception as error:
            problems.append({"check": "transfer", "category": type(error).__name__, "text": f"{where}: {error}"[:400]})
    return problems


def _equal(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.dtype == torch.float8_e4m3fn:
        found, expected = found.float(), expected.float()
    if found.dtype in (torch.uint16, torch.uint32, torch.uint64):
        found, expected = found.to(torch.float64), expected.to(torch.float64)
    return bool(torch.equal(found.nan_to_num(7.0), expected.nan_to_num(7.0)))
