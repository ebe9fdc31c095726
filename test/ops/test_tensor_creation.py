# SPDX-License-Identifier: BSD-3-Clause
"""Factories on the device: shapes, dtypes, layouts, defaults, `*_like`, ranges, generators and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from opinfo_suite import answered, raised

DEVICE = "atalla"
REAL = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
        torch.float32, torch.float64]  # fmt: skip
DTYPES = [*REAL, torch.complex64, torch.complex128]
NUMBERS = [d for d in REAL if d != torch.bool]
SHAPES = [(), (0,), (3,), (2, 0, 4), (2, 3, 4), (1, 1, 5)]


def same(got: torch.Tensor, want: torch.Tensor, **tolerance: float) -> None:
    assert got.device.type == DEVICE and got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, equal_nan=True, **(tolerance or {"rtol": 0, "atol": 0}))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_filled(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for f in (torch.zeros, torch.ones, lambda *a, **k: torch.full(*a, 1, **k)):
        same(f(shape, dtype=dtype, device=DEVICE), f(shape, dtype=dtype))
    x = torch.empty(shape, dtype=dtype, device=DEVICE)
    assert (tuple(x.shape), x.dtype, x.device.type) == (shape, dtype, DEVICE)
    same(x.fill_(1), torch.ones(shape, dtype=dtype))
    same(x.zero_(), torch.zeros(shape, dtype=dtype))


@pytest.mark.parametrize("value", [True, 3, -2, 2.5, float("inf"), float("nan"), 1 + 2j], ids=str)
def test_full_infers_the_dtype(value: Any) -> None:
    same(torch.full((2, 3), value, device=DEVICE), torch.full((2, 3), value))
    if not isinstance(value, complex):
        same(torch.scalar_tensor(value, device=DEVICE), torch.scalar_tensor(value))
    same(torch.tensor([value, value], device=DEVICE), torch.tensor([value, value]))


@pytest.mark.parametrize("dtype", [None, torch.int32, torch.float64], ids=str)
def test_like(dtype: torch.dtype | None) -> None:
    base = torch.rand(2, 3, 4, 5)
    for x in (
        base,
        base.permute(3, 1, 0, 2),
        base.to(memory_format=torch.channels_last),
        base[:, ::2],
        base[:1].expand(4, 3, 4, 5),
    ):
        d = x.to(DEVICE) if x.is_contiguous() else torch.empty_strided(x.shape, x.stride(), device=DEVICE)
        for f in (torch.zeros_like, torch.ones_like, lambda t, **k: torch.full_like(t, 2, **k)):
            same(f(d, dtype=dtype), f(x, dtype=dtype))
        assert torch.empty_like(d, dtype=dtype).stride() == torch.empty_like(x, dtype=dtype).stride()
        assert torch.rand_like(d).stride() == torch.rand_like(x).stride()
        same(d.new_zeros(2, 2, dtype=dtype), x.new_zeros(2, 2, dtype=dtype))
        same(d.new_full((2,), 7, dtype=dtype), x.new_full((2,), 7, dtype=dtype))


RANGES: dict[str, Callable[..., torch.Tensor]] = {
    "arange": lambda **k: torch.arange(7, **k),
    "arange with steps": lambda **k: torch.arange(1, 11, 3, **k),
    "arange to nothing": lambda **k: torch.arange(3, 3, **k),
    "linspace": lambda **k: torch.linspace(1, 9, 5, **k),
    "linspace of one": lambda **k: torch.linspace(2, 9, 1, **k),
    "linspace of none": lambda **k: torch.linspace(2, 9, 0, **k),
    "logspace": lambda **k: torch.logspace(0, 2, 3, base=2, **k),
    "eye": lambda **k: torch.eye(3, 5, **k),
    "eye of none": lambda **k: torch.eye(0, **k),
    "tril_indices": lambda **k: torch.tril_indices(3, 4, 1, **k),
    "triu_indices": lambda **k: torch.triu_indices(4, 3, -1, **k),
    "bartlett_window": lambda **k: torch.bartlett_window(6, **k),
    "hann_window": lambda **k: torch.hann_window(7, periodic=False, **k),
    "hamming_window": lambda **k: torch.hamming_window(6, **k),
    "blackman_window": lambda **k: torch.blackman_window(6, **k),
    "kaiser_window": lambda **k: torch.kaiser_window(6, **k),
    "complex": lambda device="cpu", dtype=None: torch.complex(
        torch.ones(2, device=device), torch.zeros(2, device=device)
    ),
    "vander": lambda device="cpu", dtype=None: torch.vander(torch.arange(3, device=device)),
}


@pytest.mark.parametrize("dtype", [None, *NUMBERS], ids=str)
@pytest.mark.parametrize("name", RANGES)
def test_ranges(name: str, dtype: torch.dtype | None) -> None:
    error = raised(lambda: RANGES[name](dtype=dtype))
    if error is not None:
        here = answered(lambda: RANGES[name](dtype=dtype, device=DEVICE))
        assert type(here) is type(error), f"{here!r}, CPU {error!r}"
        return
    want = RANGES[name](dtype=dtype)
    got = RANGES[name](dtype=dtype, device=DEVICE)
    half = {"rtol": 1.6e-2, "atol": 1e-2} if dtype in (torch.float16, torch.bfloat16) else {}
    torch.testing.assert_close(got.cpu(), want, **half)  # the CPU rounds between the steps of a window
    assert got.stride() == want.stride()


@pytest.mark.parametrize("values", [(5, 1), (0, 1, 0), (0, float("inf")), (1, 5, -1), (float("nan"), 2)], ids=str)
def test_wrong_ranges(values: tuple) -> None:
    error, here = raised(lambda: torch.arange(*values)), raised(lambda: torch.arange(*values, device=DEVICE))
    assert error is not None
    assert (type(here), str(here)) == (type(error), str(error))


def test_wrong_shapes() -> None:
    for f in (torch.empty, torch.zeros, torch.rand):
        error, here = raised(lambda f=f: f(2, -1)), raised(lambda f=f: f(2, -1, device=DEVICE))
        assert (type(here), str(here)) == (type(error), str(error))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_random_numbers(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    first = [torch.rand(4000, dtype=dtype, device=DEVICE), torch.randn(4000, dtype=dtype, device=DEVICE)]
    torch.manual_seed(3)
    again = [torch.rand(4000, dtype=dtype, device=DEVICE), torch.randn(4000, dtype=dtype, device=DEVICE)]
    for x, y in zip(first, again):
        assert torch.equal(x.cpu(), y.cpu())
    uniform, normal = (x.cpu().double() for x in first)
    assert uniform.min() >= 0 and uniform.max() < 1 + 1e-9 and abs(uniform.mean() - 0.5) < 0.03
    assert abs(normal.mean()) < 0.08 and abs(normal.std() - 1) < 0.08


def test_generator() -> None:
    generator = torch.Generator(DEVICE).manual_seed(5)
    x = torch.rand(8, device=DEVICE, generator=generator)
    state = generator.get_state()
    y = torch.rand(8, device=DEVICE, generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.rand(8, device=DEVICE, generator=generator).cpu(), y.cpu())
    assert not torch.equal(x.cpu(), y.cpu())
    with pytest.raises(RuntimeError, match="Expected a .* device type for generator"):
        torch.rand(3, device=DEVICE, generator=torch.Generator("cpu"))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_randint(dtype: torch.dtype) -> None:
    x = torch.randint(2, 9, (500,), dtype=dtype, device=DEVICE).cpu()
    assert x.dtype == dtype and set(x.long().tolist()) == set(range(2, 9))


def test_randperm() -> None:
    assert sorted(torch.randperm(100, device=DEVICE).tolist()) == list(range(100))


def test_from_the_host() -> None:
    data = [[1, 2], [3, 4]]
    same(torch.tensor(data, device=DEVICE), torch.tensor(data))
    same(torch.as_tensor(data, device=DEVICE), torch.tensor(data))
    same(torch.asarray(data, device=DEVICE, dtype=torch.float64), torch.tensor(data, dtype=torch.float64))
    assert torch.tensor(data, device=DEVICE).tolist() == data


def test_default_device() -> None:
    with torch.device(DEVICE):
        for x in (torch.zeros(2), torch.arange(3), torch.rand(2), torch.tensor([1.0]), torch.eye(2)):
            assert x.device.type == DEVICE


def test_default_dtype() -> None:
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float64, torch.bfloat16):
            torch.set_default_dtype(dtype)
            for f in (torch.zeros, torch.rand, torch.empty):
                assert f(2, device=DEVICE).dtype == dtype
            assert torch.full((2,), 1.0, device=DEVICE).dtype == dtype
    finally:
        torch.set_default_dtype(before)
