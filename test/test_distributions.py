# SPDX-License-Identifier: BSD-3-Clause
"""Distributions of random numbers: Kolmogorov-Smirnov tests and moments at fixed seeds, generators, threads."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import torch_atalla

DEVICE = "atalla"
N = 40_000


@pytest.fixture(autouse=True)
def strict():
    with torch_atalla.fallback.mode("error"):
        yield


def empty(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(N, dtype=dtype, device=DEVICE)


def full(*values: float) -> list[torch.Tensor]:
    return [torch.full((N,), v, dtype=torch.float64, device=DEVICE) for v in values]


CONTINUOUS: dict[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "uniform": (lambda: empty().uniform_(-1, 3), lambda x: (x + 1) / 4),
    "normal": (lambda: empty().normal_(1, 2), lambda x: torch.special.ndtr((x - 1) / 2)),
    "exponential": (lambda: empty().exponential_(2), lambda x: 1 - torch.exp(-2 * x)),
    "cauchy": (lambda: empty().cauchy_(1, 2), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
    "log normal": (lambda: empty().log_normal_(0.5, 0.7), lambda x: torch.special.ndtr((x.log() - 0.5) / 0.7)),
    "gamma 0.3": (lambda: torch._standard_gamma(*full(0.3)), lambda x: torch.special.gammainc(x * 0 + 0.3, x)),
    "gamma 7.5": (lambda: torch._standard_gamma(*full(7.5)), lambda x: torch.special.gammainc(x * 0 + 7.5, x)),
    "beta by dirichlet": (
        lambda: torch._sample_dirichlet(torch.ones(N, 2, dtype=torch.float64, device=DEVICE))[:, 0],
        lambda x: x,
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_kolmogorov_smirnov(name: str) -> None:
    torch.manual_seed(3)
    draw, cdf = CONTINUOUS[name]
    p = cdf(draw().cpu().double().sort().values)
    rank = torch.arange(N + 1, dtype=torch.float64) / N
    distance = torch.maximum((p - rank[:-1]).abs().max(), (p - rank[1:]).abs().max())
    assert distance < 1.63 / math.sqrt(N)  # the 1 % point


def poisson(rate: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda k: torch.exp(k * math.log(rate) - rate - torch.lgamma(k + 1))


def binomial(n: int, p: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def mass(k: torch.Tensor) -> torch.Tensor:
        log_choose = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp_min(0) + 1)
        return torch.where(k <= n, torch.exp(log_choose + k * math.log(p) + (n - k) * math.log1p(-p)), 0.0)

    return mass


DISCRETE: dict[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "geometric": (lambda: empty(torch.int64).geometric_(0.3), lambda k: torch.where(k > 0, 0.3 * 0.7 ** (k - 1), 0.0)),
    "poisson 0.7": (lambda: torch.poisson(*full(0.7)), poisson(0.7)),
    "poisson 9": (lambda: torch.poisson(*full(9.0)), poisson(9.0)),
    "poisson 25": (lambda: torch.poisson(*full(25.0)), poisson(25.0)),
    "binomial 20, 0.1": (lambda: torch.binomial(*full(20.0, 0.1)), binomial(20, 0.1)),
    "binomial 60, 0.4": (lambda: torch.binomial(*full(60.0, 0.4)), binomial(60, 0.4)),
    "binomial 60, 0.9": (lambda: torch.binomial(*full(60.0, 0.9)), binomial(60, 0.9)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_chi_squared(name: str) -> None:
    torch.manual_seed(5)
    draw, mass = DISCRETE[name]
    values = draw().cpu().double()
    top = int(values.max()) + 1
    expected = mass(torch.arange(top, dtype=torch.float64)) * N
    found = torch.bincount(values.long(), minlength=top).double()
    large = expected >= 10  # the rest is one cell
    cells = torch.cat([expected[large], (N - expected[large].sum()).reshape(1)])
    counts = torch.cat([found[large], (N - found[large].sum()).reshape(1)])
    if cells[-1] < 5:
        cells, counts = cells[:-1], counts[:-1]
    statistic, freedom = ((counts - cells) ** 2 / cells).sum().item(), len(cells) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 4


DRAWS = {
    "poisson": lambda g: torch.poisson(torch.full((3000,), 12.0, device=DEVICE), generator=g),
    "gamma": lambda g: torch._standard_gamma(torch.full((3000,), 0.5, device=DEVICE), generator=g),
    "cauchy": lambda g: torch.empty(3000, device=DEVICE).cauchy_(generator=g),
    "geometric": lambda g: torch.empty(3000, device=DEVICE).geometric_(0.2, generator=g),
    "log normal": lambda g: torch.empty(3000, device=DEVICE).log_normal_(generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_generators(name: str) -> None:
    def generator() -> torch.Generator:
        return torch.Generator(device=DEVICE).manual_seed(9)

    first, again = DRAWS[name](generator()).cpu(), DRAWS[name](generator()).cpu()
    assert torch.equal(first, again)
    g = generator()
    DRAWS[name](g)
    assert not torch.equal(DRAWS[name](g).cpu(), first)
    torch.manual_seed(9)
    assert torch.equal(DRAWS[name](None).cpu(), first)


def test_an_element_has_its_own_place_in_the_sequence() -> None:
    torch.manual_seed(1)
    whole = torch.poisson(torch.full((5000,), 30.0, device=DEVICE)).cpu()
    torch.manual_seed(1)
    assert torch.equal(torch.poisson(torch.full((2000,), 30.0, device=DEVICE)).cpu(), whole[:2000])
    torch.manual_seed(1)
    strided = torch.poisson(torch.full((5000, 2), 30.0, device=DEVICE)[:, 0]).cpu()
    assert torch.equal(strided, whole)


def test_ends_of_the_parameters() -> None:
    nan, inf = math.nan, math.inf
    zero = torch.poisson(torch.tensor([0.0], device=DEVICE))
    assert zero.item() == 0
    count = torch.tensor([5.0, 5.0, -1.0, 5.0], device=DEVICE)
    prob = torch.tensor([0.0, 1.5, 0.5, nan], device=DEVICE)
    assert torch.binomial(count, prob).cpu()[:3].tolist() == [0, 5, 0]
    assert torch._standard_gamma(torch.tensor([0.0, nan, inf], device=DEVICE)).shape == (3,)
    with pytest.raises(RuntimeError, match="expected rate to be non-negative"):
        torch.poisson(torch.tensor([1.0, -1.0], device=DEVICE)).cpu()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_rrelu(dtype: torch.dtype) -> None:
    x = torch.linspace(-2, 2, 1001, dtype=dtype, device=DEVICE)
    noise = torch.empty_like(x)
    y = torch.ops.aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)
    assert torch.equal(y.cpu(), (x * noise).cpu())
    slopes = noise.cpu()[x.cpu() <= 0].double()
    assert (noise.cpu()[x.cpu() > 0] == 1).all() and slopes.min() >= 0.0996 and slopes.max() <= 0.301
    assert abs(slopes.mean().item() - 0.2) < 0.01
