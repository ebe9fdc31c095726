# SPDX-License-Identifier: BSD-3-Clause
"""Batch, group and layer normalization where OpInfo does not look: layouts, statistics, errors, threads."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import torch_atalla

DEVICE = "atalla"
FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-10}
LAYOUTS = {
    "rows": lambda: torch.randn(3, 5, 7, 9),
    "short runs": lambda: torch.randn(40, 300, 3),
    "two dimensions": lambda: torch.randn(130, 33),
    "one long channel": lambda: torch.randn(2, 1, 40_000),
    "channels last": lambda: torch.randn(3, 20, 5, 6).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(3, 6, 20).transpose(1, 2),
}


@pytest.fixture(autouse=True)
def strict():
    with torch_atalla.fallback.mode("error"):
        yield


def close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert actual.dtype == expected.dtype and actual.shape == expected.shape and actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype], equal_nan=True)


def test_batch_norm_of_a_slice_keeps_channels_last() -> None:
    x = torch.randn(3, 20, 5, 6).to(memory_format=torch.channels_last)
    parameter = torch.rand(20)
    expected = torch.nn.functional.batch_norm(x[..., 1:], parameter, parameter)
    y = torch.nn.functional.batch_norm(x.to(DEVICE)[..., 1:], *2 * [parameter.to(DEVICE)])
    close(y, expected, torch.float32)


def test_batch_norm_of_strides_that_suggest_no_format() -> None:
    x = torch.randn(1, 33, 33, 1).permute(3, 2, 1, 0)  # channels last has no gaps, and its strides do not fall
    parameter = torch.rand(33)
    expected = torch.nn.functional.batch_norm(x, parameter, parameter)
    on_device = torch.randn(1, 33, 33, 1, device=DEVICE).permute(3, 2, 1, 0).copy_(x)
    close(torch.nn.functional.batch_norm(on_device, *2 * [parameter.to(DEVICE)]), expected, torch.float32)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batch_norm(layout: str, dtype: torch.dtype, training: bool) -> None:
    torch.manual_seed(0)
    x = LAYOUTS[layout]().to(dtype)
    c = x.shape[1]
    weight, bias, mean, var = (torch.rand(c).to(dtype) for _ in range(4))
    parameters = [weight, bias, mean, var + 0.5]
    copies = [p.to(DEVICE) for p in parameters]
    want = torch.native_batch_norm(x, *parameters, training, 0.1, 1e-5)
    got = torch.native_batch_norm(x.to(DEVICE), *copies, training, 0.1, 1e-5)
    for g, w in zip(got, want):
        close(g, w, dtype)
    for g, w in zip(copies, parameters):  # the running statistics too
        close(g, w, dtype)


def test_mixed_parameters_keep_their_dtype() -> None:
    x, ones = torch.randn(4, 6, 5).bfloat16(), torch.ones(6)
    parameters = [ones, ones, torch.zeros(6), ones.clone()]
    got = torch.native_batch_norm(x.to(DEVICE), *(p.to(DEVICE) for p in parameters), True, 0.1, 1e-5)
    want = torch.native_batch_norm(x, *parameters, True, 0.1, 1e-5)
    for g, w in zip(got, want):
        close(g, w, torch.bfloat16)


def test_one_sample_and_no_variance() -> None:
    x, var = torch.ones(1, 3), torch.ones(3)
    on_device = var.to(DEVICE)
    torch.native_batch_norm(x.to(DEVICE), None, None, torch.zeros(3, device=DEVICE), on_device, True, 0.1, 1e-5)
    assert on_device.isnan().all().item()
    out, _, rstd = torch.native_batch_norm(torch.ones(2, 3, device=DEVICE), None, None, None, None, True, 0.1, 0.0)
    assert torch.equal(out.cpu(), torch.zeros(2, 3)) and torch.equal(rstd.cpu(), torch.zeros(3))


BAD_BATCH_NORMS = {
    "at least one element": lambda: torch.native_batch_norm(
        torch.ones(0, 3, device=DEVICE), None, None, None, None, True, 0.1, 1e-5
    ),
    "running_mean must be defined": lambda: F.batch_norm(torch.ones(2, 3, device=DEVICE), None, None),
    "expect parameter to have scalar type of Float": lambda: torch.native_batch_norm(
        torch.ones(2, 3, device=DEVICE, dtype=torch.half),
        *[torch.ones(3, device=DEVICE, dtype=torch.double)] * 4, True, 0.1, 1e-5,
    ),
    "more than 1 value per channel": lambda: F.batch_norm(torch.ones(1, 3, device=DEVICE), None, None, training=True),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD_BATCH_NORMS)
def test_errors(message: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=message):
        BAD_BATCH_NORMS[message]()


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("layout", ["rows", "channels last", "short runs"])
def test_group_norm(layout: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = LAYOUTS[layout]().to(dtype)
    n, c = x.shape[:2]
    weight, bias = torch.rand(c).to(dtype), torch.rand(c).to(dtype)
    arguments = (n, c, x.numel() // n // c, 5, 1e-5)
    want = torch.native_group_norm(x, weight, bias, *arguments)
    got = torch.native_group_norm(x.to(DEVICE), weight.to(DEVICE), bias.to(DEVICE), *arguments)
    for g, w in zip(got, want):
        close(g, w, dtype)


def test_a_large_mean_keeps_the_digits() -> None:
    x = torch.randint(0, 3, (4, 2, 5000)).float() + 1e4
    want = F.batch_norm(x.double(), None, None, training=True)
    got = F.batch_norm(x.to(DEVICE), None, None, training=True).cpu()
    assert (got - want).abs().max() < 1e-3


def test_results_do_not_depend_on_the_batch_of_other_channels() -> None:
    x = torch.randn(8, 40, 100, device=DEVICE)
    whole = F.batch_norm(x, None, None, training=True)[:, 32:].cpu()
    torch.testing.assert_close(F.batch_norm(x[:, 32:].contiguous(), None, None, training=True).cpu(), whole)
