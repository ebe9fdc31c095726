# SPDX-License-Identifier: BSD-3-Clause
"""Sorting, searching and what rests on them, where OpInfo's samples do not reach: long rows, ties, threads, errors."""

import math

import pytest
import torch

import torch_atalla

NAN = math.nan


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


def long_row(dtype: torch.dtype, n: int = 1 << 20) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if not dtype.is_floating_point:
        return torch.randint(-(1 << 40), 1 << 40, (n,), generator=generator).to(dtype)
    x = (torch.randn(n, generator=generator) * 1000).to(dtype)
    x[::7], x[1::9], x[2::9], x[5], x[6] = NAN, -0.0, 0.0, math.inf, -math.inf
    return x


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64, torch.float16, torch.int8])
@pytest.mark.parametrize("descending", [False, True])
def test_long_row(dtype, descending):
    x = long_row(dtype)
    expected = torch.sort(x, stable=True, descending=descending)
    actual = torch.sort(x.to("atalla"), stable=True, descending=descending)
    same(actual.indices, expected.indices)
    same(actual.values, expected.values)


def test_ties_keep_their_order():
    x = torch.arange(300_000, device="atalla") % 5
    order = torch.argsort(x, stable=True)
    same(order, torch.arange(300_000).reshape(-1, 5).t().reshape(-1))


def test_out_over_the_input():
    x = torch.randn(50, 60)
    d = x.to("atalla")
    indices = torch.empty(0, dtype=torch.int64, device="atalla")
    torch.sort(d, 0, out=(d, indices))
    same(d, torch.sort(x, 0).values)


def results(threads: int) -> list[torch.Tensor]:
    torch_atalla.chip.set_num_threads(threads)
    x = long_row(torch.float32, 400_000).to("atalla")
    m = x.reshape(400, 1000)
    found = [
        *torch.sort(x), *torch.topk(m, 30), *torch.kthvalue(m, 10), *torch.unique(x, return_inverse=True),
        *torch.cummax(m, 0), torch.histc(x, 50, -10, 10), torch.logcumsumexp(m, 1), torch.nansum(x), *torch.mode(m, 1),
        torch.isin(x, x[:100]), torch.bucketize(x, torch.linspace(-1, 1, 99, device="atalla")),
    ]  # fmt: skip
    return [t.cpu() for t in found]


def test_threads_do_not_matter():
    threads = torch_atalla.chip.get_num_threads()
    try:
        one, two = results(1), results(2)
    finally:
        torch_atalla.chip.set_num_threads(threads)
    for a, b in zip(one, two):
        same(b, a)


def test_nan_and_zeros():
    x = torch.tensor([NAN, 1, NAN, -0.0, 0.0, 2, math.inf, -math.inf, NAN])
    d = x.to("atalla")
    for f in (
        lambda t: torch.cummax(t, 0),
        lambda t: torch.cummin(t, 0),
        lambda t: torch.unique(t, return_inverse=True, return_counts=True),
        lambda t: torch.unique_consecutive(t, return_counts=True),
        lambda t: (torch.isin(t, t),),
        lambda t: (torch.searchsorted(torch.tensor([0.0, 1.0], device=t.device), t),),
        lambda t: torch.topk(t, 4),
        lambda t: torch.topk(t, 4, largest=False),
        lambda t: torch.median(t, 0),
        lambda t: torch.nanmedian(t, 0),
        lambda t: torch.kthvalue(t, 5),
        lambda t: (torch.nansum(t), torch.count_nonzero(t), torch.median(t), torch.nanmedian(t)),
    ):
        for actual, expected in zip(f(d), f(x)):
            same(actual, expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_unique_slices(dim):
    x = torch.randint(0, 2, (5, 4, 6))
    for f in (
        lambda t: torch.unique(t, dim=dim, return_inverse=True, return_counts=True),
        lambda t: torch.unique_consecutive(t, dim=dim, return_inverse=True, return_counts=True),
    ):
        for actual, expected in zip(f(x.to("atalla")), f(x)):
            same(actual, expected)
            assert actual.stride() == expected.stride()


def test_randperm():
    a = torch.randperm(10_000, device="atalla", generator=torch.Generator("atalla").manual_seed(3))
    b = torch.randperm(10_000, device="atalla", generator=torch.Generator("atalla").manual_seed(3))
    same(a, b.cpu())
    same(torch.sort(a).values, torch.arange(10_000))
    assert not torch.equal(a, torch.arange(10_000, device="atalla"))
    assert torch.randperm(0, device="atalla").shape == (0,)


def test_multinomial_without_replacement():
    p = torch.tensor([[1.0, 0, 2, 3, 0, 4], [1, 1, 1, 1, 0, 0]], device="atalla")
    drawn = torch.multinomial(p, 4)
    same(torch.sort(drawn).values, torch.tensor([[0, 2, 3, 5], [0, 1, 2, 3]]))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_gradients_of_distances(p):
    x, y = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    found = []
    for device in ("cpu", "atalla"):
        a, b = (t.clone().to(device).requires_grad_() for t in (x, y))
        (torch.cdist(a, b, p) * torch.arange(3.0, device=device)).sum().backward()
        c = x[0].clone().to(device).requires_grad_()
        (torch.pdist(c, p) * torch.arange(10.0, device=device)).sum().backward()
        found.append([t.grad.cpu() for t in (a, b, c)])
    for actual, expected in zip(found[1], found[0]):
        torch.testing.assert_close(actual, expected)


def test_gradient_of_no_distance():
    x = torch.randn(1, 31, device="atalla", requires_grad=True)
    torch.pdist(x).sum().backward()
    same(x.grad, torch.zeros(1, 31))


ERRORS = [
    lambda d: torch.kthvalue(torch.ones(3, device=d), 4),
    lambda d: torch.kthvalue(torch.ones(3, 0, device=d), 1, 1),
    lambda d: torch.topk(torch.ones(3, device=d), 4),
    lambda d: torch.median(torch.ones(3, 0, device=d), 1),
    lambda d: torch.mode(torch.ones(3, 0, device=d), 1),
    lambda d: torch.sort(torch.ones(3, device=d, dtype=torch.complex64)),
    lambda d: torch.searchsorted(torch.ones(3, device=d), torch.ones(3, device=d), side="up"),
    lambda d: torch.searchsorted(torch.ones(2, 3, device=d), torch.ones(3, 3, device=d)),
    lambda d: torch.searchsorted(
        torch.ones(3, device=d), torch.ones(1, device=d), sorter=torch.tensor([0, 1, 3], device=d)
    ),
    lambda d: torch.bucketize(torch.ones(3, device=d), torch.ones(2, 2, device=d)),
    lambda d: torch.ops.aten.unique_dim(torch.ones(0, 3, device=d), 1),
    lambda d: torch.ops.aten.unique_dim(torch.ones(0, 0, device=d), 1),
    lambda d: torch.trace(torch.ones(3, device=d)),
    lambda d: torch.histc(torch.tensor([1.0, math.inf], device=d)),
    lambda d: torch.histc(torch.ones(3, device=d), bins=0),
    lambda d: torch.histogram(torch.ones(3, device=d), 4, range=(2.0, 1.0)),
    lambda d: torch.cdist(torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)),
    lambda d: torch.segment_reduce(torch.ones(3, device=d), "sum", lengths=torch.tensor([1, 1], device=d)),
    lambda d: torch.randperm(-1, device=d),
    lambda d: torch.randperm(300, dtype=torch.uint8, device=d),
    lambda d: torch.isin(torch.ones(2, dtype=torch.bool, device=d), torch.ones(2, dtype=torch.bool, device=d)),
]


@pytest.mark.parametrize("call", ERRORS, ids=range(len(ERRORS)))
def test_errors_are_upstreams(call):
    with pytest.raises((RuntimeError, IndexError, NotImplementedError, TypeError)) as expected:
        call("cpu")
    with pytest.raises(expected.type) as actual:
        call("atalla")
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]
