# SPDX-License-Identifier: BSD-3-Clause
"""Factories on the device: shapes, dtypes, layouts, defaults, `*_like`, ranges, generators and their errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from opinfo_suite import answered, raised

import torch_atalla

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


@pytest.mark.parametrize("dtype", [None, torch.int64, torch.float16, torch.float64], ids=str)
def test_range_includes_its_end(dtype: torch.dtype | None) -> None:
    with torch_atalla.fallback.mode("error"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # range is deprecated
        for values in ((0, 5), (1, 2, 0.25), (5, -5, -2), (3, 3)):
            if dtype == torch.int64 and 0.25 in values:
                continue
            same(torch.range(*values, dtype=dtype, device=DEVICE), torch.range(*values, dtype=dtype))
        for out in (torch.empty(0), torch.empty(6)[::2], torch.empty(3)):
            torch.range(
                1, 3, out=(on_chip := torch.empty(6, device=DEVICE)[::2] if out.stride() == (2,) else out.to(DEVICE))
            )
            assert on_chip.tolist() == torch.range(1, 3, out=out).tolist()
        for wrong in ((0, 5, 0), (0, 5, -1), (0, float("inf"))):
            assert str(raised(lambda w=wrong: torch.range(*w, device=DEVICE))) == str(
                raised(lambda w=wrong: torch.range(*w))
            )


@pytest.mark.parametrize("name", ["arange", "linspace", "logspace", "range"])
def test_outputs_that_overlap_are_refused(name: str) -> None:
    arguments = {"arange": (0, 3), "linspace": (0, 1, 3), "logspace": (0, 1, 3), "range": (0, 2)}[name]
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        getattr(torch, name)(*arguments, out=torch.empty(1, device=DEVICE).expand(3))


@pytest.fixture
def filled_memory():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float8_e4m3fn, torch.uint16], ids=str)
def test_uninitialized_memory_is_filled_if_asked_for(dtype: torch.dtype, filled_memory: None) -> None:
    def made(device: str) -> list[torch.Tensor]:
        x = torch.zeros(2, 3, dtype=dtype, device=device)
        return [
            torch.empty(5, dtype=dtype, device=device),
            torch.empty_strided((2, 2), (1, 2), dtype=dtype, device=device),
            torch.empty_like(x),
            x.new_empty(3),
            x.clone().resize_(4, 5),
            x.clone()[:, ::2].resize_(3, 4),
            x[0, :1].expand(7).resize_(9),
            x.clone().resize_(2, 2),
        ]

    for mine, cpu in zip(made(DEVICE), made("cpu"), strict=True):
        assert (mine.shape, mine.dtype) == (cpu.shape, cpu.dtype)
        assert torch.equal(mine.cpu().contiguous().view(torch.uint8), cpu.contiguous().view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_wide_unsigned_random_integers(dtype: torch.dtype) -> None:
    with torch_atalla.fallback.mode("error"):
        x = torch.empty(1000, dtype=dtype, device=DEVICE).random_(3, 60000)
        values = x.cpu().long()
        assert x.dtype == dtype and values.min() >= 3 and 50000 < values.max() < 60000
        assert torch.randint(0, 5, (100,), dtype=dtype, device=DEVICE).cpu().long().unique().tolist() == [0, 1, 2, 3, 4]
        assert torch.empty(9, dtype=dtype, device=DEVICE).random_(2).cpu().long().max() < 2
    for bounds in ((-1, 5), (0, 2**40)):
        on_chip, on_cpu = (torch.empty(3, dtype=dtype, device=device) for device in (DEVICE, "cpu"))
        messages = [str(raised(lambda x=x, b=bounds: x.random_(*b))) for x in (on_chip, on_cpu)]
        assert messages[0] == messages[1]
