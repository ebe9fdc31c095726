# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise ops on contiguous tensors of one shape and one floating or integer dtype, which no TensorIterator
looks at (csrc/aten/launch/dense.h), give the same launches, results, errors and strides as with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import torch_atalla
from tools.codegen import registrations
from tools.codegen.model import Entry, load

DEVICE = "atalla"
YAML = Path(__file__).parents[2] / "csrc/aten/atalla_native_functions.yaml"


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with torch_atalla.fallback.mode("error"):
        yield


def is_dense(entry: Entry) -> bool:
    if entry.adaptor or not (entry.structured or entry.iterator):
        return False
    return bool(registrations.dense_launch(entry, entry.function, ""))


ENTRIES = [entry for entry in load(YAML) if is_dense(entry)]


def operator(entry: Entry):
    name = entry.function.func.name
    return getattr(getattr(torch.ops.aten, str(name.name)), name.overload_name or "default")


def tensors(entry: Entry, dtype: torch.dtype) -> list[Tensor]:
    torch.manual_seed(0)
    if not dtype.is_floating_point:
        return [torch.randint(1, 7, (6, 6), dtype=dtype).to(DEVICE) for _ in entry.pointwise[0].inputs]
    return [torch.rand(6, 6, device=DEVICE).mul(0.9).add(0.05).to(dtype) for _ in entry.pointwise[0].inputs]


def factors(entry: Entry) -> dict[str, float]:
    """Values of arguments without a default."""
    given = entry.function.func.arguments.flat_non_out
    return {a.name: 2 for a in given if not a.type.is_tensor_like() and a.default is None}


def transposed(t: Tensor) -> Tensor:
    """The same values in the same places, for which an iterator is asked."""
    return t.t().contiguous().t()


def charged(run) -> tuple[Tensor, list[tuple]]:
    latest = torch_atalla.telemetry.launches(limit=1)[0].sequence
    result = run()
    rows = torch_atalla.telemetry.launches(since=latest + 1)
    return result, [(r.kernel, r.cycles, r.dram_bytes_read, r.dram_bytes_written, r.shape) for r in rows]


def test_the_number_of_ops() -> None:
    assert len(ENTRIES) >= 100


@pytest.mark.parametrize("entry", ENTRIES, ids=[e.op for e in ENTRIES])
def test_same_launch_and_bits(entry: Entry) -> None:
    op, given = operator(entry), factors(entry)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8):
        if str(dtype).removeprefix("torch.") not in entry.pointwise[0].dtypes:
            continue
        plain = tensors(entry, dtype)
        got, launches = charged(lambda plain=plain: op(*plain, **given))
        want, expected = charged(lambda plain=plain: op(*map(transposed, plain), **given))
        assert launches == expected[-1:], "the iterator's launch, after the copies that transpose"
        assert got.dtype == want.dtype
        assert got.is_contiguous()
        torch.testing.assert_close(got.cpu(), want.cpu(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("scalar", [2, 2.5, True, torch.tensor(3), torch.tensor(0.1, dtype=torch.float64)])
def test_scalars(scalar: object) -> None:
    x = torch.arange(1.0, 7).reshape(2, 3)
    for dtype in (torch.float32, torch.bfloat16):
        own = x.to(dtype)
        for f in (torch.mul, torch.add, torch.eq, torch.div):
            got = f(own.to(DEVICE), scalar)
            want = f(own, scalar)
            assert got.dtype == want.dtype
            torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


@pytest.mark.parametrize("scalar", [2, -3, 300, 2.5, True, torch.tensor(3), torch.tensor(300), torch.tensor(2.5)])
def test_scalars_beside_integers(scalar: object) -> None:
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64):
        x = torch.arange(1, 7).reshape(2, 3).to(dtype)
        for f in (torch.mul, torch.add, torch.eq, torch.remainder, torch.maximum):
            other = torch.as_tensor(scalar) if f is torch.maximum else scalar
            got, want = f(x.to(DEVICE), other), f(x, other)
            assert got.dtype == want.dtype
            torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


def test_selection() -> None:
    x, y = torch.rand(3, 4), torch.rand(3, 4)
    mask = x > 0.5
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        a, b = x.mul(9).to(dtype), y.mul(9).to(dtype)
        assert torch.equal(torch.where(mask.to(DEVICE), a.to(DEVICE), b.to(DEVICE)).cpu(), torch.where(mask, a, b))
        for value in (1, True, 0.1, float("inf")):
            if value in (0.1, float("inf")) and not (dtype.is_floating_point or dtype.is_complex):
                continue
            got = a.to(DEVICE).masked_fill(mask.to(DEVICE), value)
            assert torch.equal(got.cpu(), a.masked_fill(mask, value))
    itself = mask.to(DEVICE)
    assert torch.equal(itself.masked_fill_(itself, False).cpu(), torch.zeros_like(mask))


def test_complex_scalar_promotes() -> None:
    got = torch.mul(torch.ones(3, device=DEVICE), torch.tensor(2j))
    assert got.dtype == torch.complex64
    assert (torch.ones(3, device=DEVICE) + 1j).dtype == torch.complex64


@pytest.mark.parametrize("shape", [(2, 1, 3), (1, 4), (3, 1, 1)])
def test_strides_of_dimensions_of_size_1(shape: tuple[int, ...]) -> None:
    for source in (torch.rand(shape), torch.rand(shape[::-1]).permute(*range(len(shape))[::-1])):
        for f in (lambda t: t * 2, lambda t: t + t, torch.sin):
            assert f(source.to(DEVICE)).stride() == f(source).stride()


def test_given_outputs() -> None:
    x, y = torch.rand(4, 4), torch.rand(4, 4)
    for out in (torch.empty(4, 4), torch.empty(0), torch.empty(4, 4).t(), torch.empty(4, 4, dtype=torch.float64)):
        got = torch.add(x.to(DEVICE), y.to(DEVICE), alpha=2, out=out.to(DEVICE))
        want = torch.add(x, y, alpha=2, out=out)
        assert got.dtype == want.dtype
        assert got.stride() == want.stride()
        torch.testing.assert_close(got.cpu(), want)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        torch.add(x.to(DEVICE), y.to(DEVICE), out=torch.empty(4, 4, dtype=torch.int32, device=DEVICE))


def test_overlap() -> None:
    memory = torch.arange(9.0, device=DEVICE)
    with pytest.raises(RuntimeError, match="single memory location"):
        memory[1:].add_(memory[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(memory[:-1], memory[:-1], out=memory[1:])
    with pytest.raises(RuntimeError, match="single memory location"):
        memory[1:].copy_(memory[:-1])
    assert memory.tolist() == list(range(9))
    memory.add_(memory)
    memory[:4].copy_(memory[5:])
    assert memory.tolist() == [10, 12, 14, 16, 8, 10, 12, 14, 16]


def test_errors() -> None:
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        torch.add(x, x, alpha=True)
    with pytest.raises(RuntimeError, match="alpha must not be a complex number"):
        torch.add(x, x, alpha=1j)
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor is not supported"):
        x - True
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        torch.add(x, torch.ones(4, device=DEVICE))
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch.add(x, torch.ones(3))
    with pytest.raises(RuntimeError, match="at least two devices"):
        torch.add(x, torch.ones(3, device="atalla:1"))


def test_converting_copies() -> None:
    x = torch.tensor([[1.5, -2.5], [3.25, float("nan")]])
    for dtype in (torch.bfloat16, torch.float64, torch.int32, torch.bool, torch.complex64):
        source = x.nan_to_num()
        got = torch.empty(2, 2, dtype=dtype, device=DEVICE).copy_(source.to(DEVICE))
        assert torch.equal(got.cpu(), source.to(dtype))
    cpu = torch.empty(2, 2, dtype=torch.float64).t().copy_(x)
    torch.testing.assert_close(
        torch.empty(2, 2, dtype=torch.float64, device=DEVICE).t().copy_(x.to(DEVICE)).cpu(), cpu, equal_nan=True
    )
