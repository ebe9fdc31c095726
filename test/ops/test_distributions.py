# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of every random op follow its law: Kolmogorov-Smirnov or chi-squared, and moments, at fixed seeds."""

from __future__ import annotations

import math

import pytest
import torch
from random_cases import CASES, DEVICE, WITHOUT_CASE, bernoulli, uniform


def drawn(name: str, seed: int = 3) -> torch.Tensor:
    torch.manual_seed(seed)
    return CASES[name][0](None).cpu().double().flatten()


def tags(name: str) -> list[torch.Tag]:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default").tags


def test_no_random_op_lacks_a_case() -> None:
    names = [n[len("aten::") :] for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    # Variants with names of dimensions, and out= forms that torchgen adds, call the ones that are listed.
    tagged = {n for n in names if "names" not in n and torch.Tag.nondeterministic_seeded in tags(n)}
    written = {n for n in tagged if torch.Tag.generated not in tags(n)}
    covered = {name.partition(" ")[0] for name in CASES}
    assert written - covered - WITHOUT_CASE.keys() == set()
    known = (covered | WITHOUT_CASE.keys()) & set(names)  # a later version of torch may have more
    assert known - tagged == set(), "cases of ops that upstream does not call random"
    assert len(covered) >= 70


@pytest.mark.parametrize("name", CASES)
def test_law(name: str) -> None:
    CASES[name][1].check(drawn(name))


@pytest.mark.parametrize("name", CASES)
def test_moments(name: str) -> None:
    law = CASES[name][1]
    if law.mean is None:
        pytest.skip("the law has no mean")
    x = drawn(name, seed=5)
    n, mean = len(x), x.mean().item()
    centred = (x - mean) ** 2
    variance = centred.mean().item()
    assert abs(mean - law.mean) < 4.5 * math.sqrt(law.variance / n)
    error = math.sqrt(max((centred**2).mean().item() - variance**2, 0) / n)  # of the variance, from the fourth moment
    assert abs(variance - law.variance) < 4.5 * error + 2 * law.variance / n


@pytest.mark.parametrize(
    "name", ["uniform_", "normal_", "bernoulli_.float", "poisson", "exponential_", "_standard_gamma"]
)
def test_neighbours_are_independent(name: str) -> None:
    x = drawn(name)
    x = (x - x.mean()) / x.std()
    for lag in (1, 2, 3, 4, 64, 256):
        assert abs((x[lag:] * x[:-lag]).mean().item()) < 4.5 / math.sqrt(len(x))


def test_draws_are_independent_of_each_other() -> None:
    """Also those whose counters have the same numbers: an op of one number a counter, and one of four."""
    torch.manual_seed(0)
    n = 20_000
    rows = [
        torch.rand(n, device=DEVICE, dtype=torch.float64),
        torch._standard_gamma(torch.ones(n, device=DEVICE, dtype=torch.float64)),
        torch.rand(n, device=DEVICE, dtype=torch.float64),
        torch.randn(n, device=DEVICE, dtype=torch.float64),
        torch._standard_gamma(torch.ones(n, device=DEVICE, dtype=torch.float64)),
    ]
    correlation = torch.corrcoef(torch.stack([r.cpu() for r in rows]))
    assert (correlation - torch.eye(len(rows))).abs().max() < 4.5 / math.sqrt(n)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_types(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    n = 40_000
    u = torch.empty(n, dtype=dtype, device=DEVICE).uniform_(0, 1).cpu().double()
    bits = 11 if dtype == torch.float16 else 8  # every number of the grid is as likely as the others
    assert u.min() >= 0 and u.max() < 1 and torch.equal(u * 2**bits, (u * 2**bits).floor())
    uniform(0, 1).check(u + torch.rand(n, dtype=torch.float64) / 2**bits)
    x = torch.empty(n, dtype=dtype, device=DEVICE).normal_(0, 1).cpu().double()
    assert abs(x.mean()) < 4.5 / math.sqrt(n) and abs(x.var() - 1) < 4.5 * math.sqrt(2 / n) + 0.002
    b = torch.empty(n, dtype=dtype, device=DEVICE).bernoulli_(0.25).cpu()
    bernoulli(0.25).check(b.double())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    z = torch.randn(30_000, dtype=dtype, device=DEVICE).cpu()
    for part in (z.real, z.imag):  # of variance 1/2 each
        assert abs(part.mean()) < 4.5 * math.sqrt(0.5 / len(z))
        assert abs(part.double().var() - 0.5) < 4.5 * math.sqrt(0.5 / len(z))
    assert abs((z.real * z.imag).mean()) < 4.5 * 0.5 / math.sqrt(len(z))
    u = torch.rand(30_000, dtype=dtype, device=DEVICE).cpu()
    uniform(0, 1).check(u.real)
    uniform(0, 1).check(u.imag)


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
    for p in (-0.5, 1.5, nan):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            probabilities = torch.tensor([0.5, p], dtype=dtype, device=DEVICE)
            with pytest.raises(RuntimeError, match="expected probabilities from 0 to 1"):
                torch.bernoulli(probabilities).cpu()
            with pytest.raises(RuntimeError, match="expected probabilities from 0 to 1"):
                torch.empty(2, dtype=torch.int64, device=DEVICE).bernoulli_(probabilities).cpu()
    query = torch.ones(1, 1, 2, 4, device=DEVICE)
    for p in (-0.5, 1.5):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            torch.nn.functional.scaled_dot_product_attention(query, query, query, dropout_p=p)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_rrelu(dtype: torch.dtype) -> None:
    x = torch.linspace(-2, 2, 1001, dtype=dtype, device=DEVICE)
    noise = torch.empty_like(x)
    torch.manual_seed(4)
    y = torch.ops.aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)
    assert torch.equal(y.cpu(), (x * noise).cpu())
    slopes = noise.cpu()[x.cpu() <= 0].double()
    assert (noise.cpu()[x.cpu() > 0] == 1).all() and slopes.min() >= 0.0996 and slopes.max() <= 0.301
    assert abs(slopes.mean().item() - 0.2) < 0.01
