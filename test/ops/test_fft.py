# SPDX-License-Identifier: BSD-3-Clause
"""Fourier transforms: strides, lengths of every kind, and what upstream refuses."""

from __future__ import annotations

import pytest
import torch

DEVICE = "atalla"
DIMS = [(3,), (1,), (0,), (1, 3), (0, 2), (2, 0), (0, 1, 2, 3)]


def inputs() -> list[torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 5, dtype=torch.complex128)
    return [x, x.permute(3, 1, 0, 2), x.permute(2, 0, 3, 1).contiguous(), x[:, ::2, 1:, ::2], x[:1].expand(3, 3, 4, 5)]


def compare(op, x: torch.Tensor, *args) -> None:
    got, want = op(x.to(DEVICE), *args), op(x, *args)
    torch.testing.assert_close(got.cpu(), want)
    dense = x.is_contiguous() or sorted(x.stride()) == sorted(torch.empty(x.shape).stride())
    assert not dense or got.stride() == want.stride()


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_dims_normalization_and_strides(dims: tuple[int, ...], normalization: int) -> None:
    for x in inputs():
        for forward in (False, True):
            compare(torch._fft_c2c, x, dims, normalization, forward)
        for onesided in (False, True):
            compare(torch._fft_r2c, x.real.clone(), dims, normalization, onesided)
        last = x.size(dims[-1])
        compare(torch._fft_c2r, x, dims, normalization, max(1, 2 * last - 2))
        if last > 1:
            compare(torch._fft_c2r, x, dims, normalization, 2 * last - 1)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 30, 31, 37, 62, 97, 120, 243, 1009, 4096, 5003, 10010])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths(n: int, dtype: torch.dtype) -> None:
    torch.manual_seed(n)
    limit = 1e-6 if dtype == torch.float32 else 2e-14  # of the largest value
    x, r = torch.randn(3, n, dtype=torch.complex128), torch.randn(3, n, dtype=torch.float64)
    half = x[:, : n // 2 + 1]
    narrow = torch.complex64 if dtype == torch.float32 else torch.complex128
    for op, t, args in (
        (torch._fft_c2c, x, (True,)),
        (torch._fft_c2c, x, (False,)),
        (torch._fft_r2c, r, (True,)),
        (torch._fft_r2c, r, (False,)),
        (torch._fft_c2r, half, (n,)),
    ):
        want = op(t, [1], 0, *args)
        given = t.to(narrow if t.is_complex() else dtype)
        got = op(given.to(DEVICE), [1], 0, *args).cpu().to(want.dtype)
        assert ((got - want).abs().max() / want.abs().max()).item() < limit


def test_round_trips_and_linearity_are_exact_where_they_can_be() -> None:
    delta = torch.zeros(64, dtype=torch.complex64, device=DEVICE)
    delta[0] = 1
    assert torch.equal(torch._fft_c2c(delta, [0], 0, True).cpu(), torch.ones(64, dtype=torch.complex64))
    ones = torch.ones(64, dtype=torch.complex64, device=DEVICE)
    assert torch.equal(torch._fft_c2c(ones, [0], 0, True).cpu(), delta.cpu() * 64)


def test_values_do_not_depend_on_the_rows_around() -> None:
    x = torch.randn(37, 240, dtype=torch.complex64).to(DEVICE)
    whole = torch._fft_c2c(x, [1], 0, True).cpu()
    for i in (0, 5, 36):
        assert torch.equal(torch._fft_c2c(x[i : i + 1], [1], 0, True).cpu()[0], whole[i])


def test_out_and_empty_batches() -> None:
    x = torch.randn(4, 6, dtype=torch.complex64)
    out = torch.empty(0, dtype=torch.complex64, device=DEVICE)
    torch._fft_c2c(x.to(DEVICE), [1], 0, True, out=out)
    torch.testing.assert_close(out.cpu(), torch._fft_c2c(x, [1], 0, True))
    assert torch.fft.fft(torch.empty(0, 8, device=DEVICE, dtype=torch.complex64)).shape == (0, 8)
    assert torch.fft.rfft(torch.empty(0, 8, device=DEVICE)).shape == (0, 5)


def test_refusals_are_upstreams() -> None:
    for call, message in (
        (lambda: torch.fft.fft(torch.ones(8, dtype=torch.half, device=DEVICE)), "Unsupported dtype"),
        (lambda: torch.fft.fft(torch.ones(0, device=DEVICE)), "Invalid number of data points"),
        (lambda: torch.fft.rfft(torch.ones(8, dtype=torch.complex64, device=DEVICE)), "expects a real input tensor"),
    ):
        with pytest.raises((RuntimeError, TypeError), match=message):
            call()
