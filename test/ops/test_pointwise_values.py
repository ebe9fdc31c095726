# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise ops against the CPU where OpInfo samples do not reach: dense grids and special values of special functions,
losses with every reduction, results that go into given outputs, errors, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, special

import torch_atalla
from torch_atalla.driver.torch_versions import since

DEVICE = "atalla"
FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with torch_atalla.fallback.mode("error"):
        yield


def close(got: Tensor, want: Tensor, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    torch.testing.assert_close(got.cpu(), want, rtol=rtol, atol=atol, equal_nan=True)


def agree(f: Callable[..., Tensor], *args: Tensor, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    close(f(*(a.to(DEVICE) for a in args)), f(*args), rtol, atol)


EDGES = [0.0, -0.0, 1.0, -1.0, -2.0, 0.5, -0.5, 1e-30, 30.0, INF, -INF, NAN]
UNARY: list[tuple[Callable[[Tensor], Tensor], float, float]] = [
    (torch.lgamma, -5.9, 60), (torch.digamma, -5.9, 60), (torch.erfinv, -1, 1), (special.erfcx, -5, 60),
    (special.ndtri, 0, 1), (special.log_ndtr, -40, 8), (torch.i0, -60, 60), (special.i0e, -60, 60),
    (special.i1, -60, 60), (special.i1e, -60, 60), (special.modified_bessel_i0, -60, 60),
    (special.modified_bessel_k0, 0, 60), (special.modified_bessel_k1, 0, 60),
    (special.scaled_modified_bessel_k0, 0, 60), (special.scaled_modified_bessel_k1, 0, 60),
    (special.bessel_j0, -60, 60), (special.bessel_j1, -60, 60), (special.bessel_y0, 0, 60), (special.bessel_y1, 0, 60),
    (special.spherical_bessel_j0, -60, 60), (special.airy_ai, -2, 110),
]  # fmt: skip


def name(f: Callable[..., Tensor]) -> str:
    return f.__name__


@pytest.mark.parametrize(("f", "low", "high"), UNARY, ids=[name(row[0]) for row in UNARY])
def test_special_function_on_a_grid(f: Callable[[Tensor], Tensor], low: float, high: float) -> None:
    grid = torch.linspace(low, high, 20011, dtype=torch.float64)
    agree(f, grid, rtol=1e-9, atol=1e-11)
    # Float results are the double ones, rounded once.
    single = grid.float()
    got = f(single.to(DEVICE)).cpu()
    close(got, f(single.double().to(DEVICE)).cpu().float(), rtol=2e-7, atol=0)


def test_log_gamma_of_floats() -> None:
    """Floats of all magnitudes and signs, denormal ones too: at most one place from the rounded double result."""
    bits = torch.arange(0, 0x7F800000, 9973, dtype=torch.int64).int()
    x = torch.cat([bits, bits | -(2**31)]).view(torch.float32)
    want = torch.lgamma(x.double()).float()
    got = torch.lgamma(x.to(DEVICE)).cpu()
    finite = want.isfinite() & got.isfinite()
    assert (want.isfinite() != got.isfinite()).sum() == 0
    assert torch.equal(got[~finite], want[~finite])
    apart = (got[finite].view(torch.int32) - want[finite].view(torch.int32)).abs()
    assert apart.max() <= 1


@pytest.mark.parametrize("f", [row[0] for row in UNARY], ids=[name(row[0]) for row in UNARY])
def test_special_function_at_edges(f: Callable[[Tensor], Tensor]) -> None:
    agree(f, torch.tensor(EDGES, dtype=torch.float64), rtol=1e-9)


@pytest.mark.parametrize("n", range(5))
def test_polygamma(n: int) -> None:
    x = torch.cat([torch.linspace(-3.95, 30, 2003), torch.tensor([0.0, -1.0, -4.0])]).double()
    agree(lambda t: torch.polygamma(n, t), x, rtol=1e-6)
    x = torch.tensor([-3, -1, 0, 1, 4])
    agree(lambda t: torch.polygamma(n, t), x, rtol=1e-5)


@pytest.mark.parametrize("f", [torch.special.gammainc, torch.special.gammaincc, special.zeta])
def test_two_arguments(f: Callable[[Tensor, Tensor], Tensor]) -> None:
    a = torch.tensor([0.01, 0.3, 1, 2.5, 10, 25, 150, 250, 1000], dtype=torch.float64)[:, None]
    x = torch.cat([torch.linspace(0.01, 40, 97), torch.tensor([150.0, 160, 240, 1050])]).double()
    agree(f, a, x, rtol=1e-7, atol=1e-12)
    edges = torch.tensor([*EDGES, 3.0], dtype=torch.float64)
    agree(f, edges[:, None], edges)


POLYNOMIALS = [
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
]  # fmt: skip


@pytest.mark.parametrize("op", POLYNOMIALS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_polynomial(op: str, dtype: torch.dtype) -> None:
    f = getattr(special, op)
    x = torch.tensor([-2.5, -1, -0.75, -0.001, 0, 0.25, 0.5, 0.9, 1, 1.5, 8], dtype=dtype)[:, None]
    n = torch.tensor([-3, 0, 1, 2.7, 5, 7, 9, 13, 30], dtype=dtype)
    agree(f, x, n, rtol=1e-3 if dtype == torch.float32 else 1e-9, atol=1e-4)
    # No degree: infinity, NaN, more than the limit of Hermite polynomials.
    agree(f, torch.full((4,), 1.5, dtype=dtype), torch.tensor([INF, -INF, NAN, 600], dtype=dtype), rtol=1e-4)


@pytest.mark.parametrize("dtype", FLOATING)
def test_nextafter_in_its_own_format(dtype: torch.dtype) -> None:
    values = torch.tensor([*EDGES, 65504.0, 3.4e38, 6e-8], dtype=torch.float64).to(dtype)
    a, b = (t.contiguous() for t in torch.broadcast_tensors(values[:, None], values))
    got = torch.nextafter(a.to(DEVICE), b.to(DEVICE)).cpu()
    want = torch.nextafter(a, b)
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(), want.nan_to_num())


def test_frexp_outputs() -> None:
    x = torch.randn(37, 5).t()
    mantissa, exponent = torch.empty(0, device=DEVICE), torch.empty(0, dtype=torch.int32, device=DEVICE)
    torch.frexp(x.to(DEVICE), out=(mantissa, exponent))
    want = torch.frexp(x)
    assert torch.equal(mantissa.cpu(), want.mantissa)
    assert torch.equal(exponent.cpu(), want.exponent)


LOSSES: list[tuple[str, Callable[..., Tensor]]] = [
    ("mse", F.mse_loss),
    ("smooth_l1", lambda a, b, reduction: F.smooth_l1_loss(a, b, reduction=reduction, beta=0.3)),
    ("huber", lambda a, b, reduction: F.huber_loss(a, b, reduction=reduction, delta=0.3)),
    ("bce", F.binary_cross_entropy),
]


@pytest.mark.parametrize(("loss"), [row[1] for row in LOSSES], ids=[row[0] for row in LOSSES])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(), (0,), (5, 7)])
def test_loss_and_gradient(loss: Callable[..., Tensor], reduction: str, shape: tuple[int, ...]) -> None:
    x, y = torch.rand(shape), torch.rand(shape)
    results = []
    for device in ("cpu", DEVICE):
        a, b = x.clone().to(device).requires_grad_(), y.to(device)
        value = loss(a, b, reduction=reduction)
        gradient = torch.autograd.grad(value.sum(), a)[0]
        results.append((value.detach().cpu(), gradient.cpu()))
    for got, want in zip(results[1], results[0]):
        close(got, want, rtol=1e-5, atol=1e-6)


ACTIVATIONS: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("gelu", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")), ("hardtanh", F.hardtanh),
    ("hardswish", F.hardswish), ("hardsigmoid", F.hardsigmoid), ("hardshrink", F.hardshrink),
    ("softshrink", F.softshrink), ("elu", F.elu), ("elu_", lambda x: F.elu(x * 1, inplace=True)),
    ("celu", F.celu), ("selu", F.selu), ("softplus", F.softplus), ("relu", F.relu), ("relu6", F.relu6),
    ("threshold", lambda x: F.threshold(x, 0.5, 9)), ("logsigmoid", F.logsigmoid),
    ("logit", lambda x: torch.logit(x, 0.1)), ("glu", lambda x: F.glu(x, 0)), ("mish", F.mish), ("silu", F.silu),
    ("prelu", lambda x: F.prelu(x, torch.tensor(0.3, device=x.device, dtype=x.dtype))),
    ("lgamma", lambda x: torch.lgamma(x.abs() + 1)), ("i0", torch.i0), ("erfinv", lambda x: torch.erfinv(x / 9)),
]  # fmt: skip


@pytest.mark.parametrize("f", [row[1] for row in ACTIVATIONS], ids=[row[0] for row in ACTIVATIONS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient(f: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.cat([torch.linspace(-8, 8, 995), torch.tensor([0.0, -3, 3, -1, 1])]).to(dtype)
    gradients = []
    for device in ("cpu", DEVICE):
        t = x.clone().to(device).requires_grad_()
        gradients.append(torch.autograd.grad(f(t).sum(), t)[0].cpu())
    close(gradients[1], gradients[0], rtol=2e-5, atol=2e-6)


def test_prelu_gradient_of_the_weight() -> None:
    x, w = torch.randn(4, 3, 5), torch.rand(3)
    results = []
    for device in ("cpu", DEVICE):
        a, b = x.clone().to(device).requires_grad_(), w.clone().to(device).requires_grad_()
        results.append([t.cpu() for t in torch.autograd.grad(F.prelu(a, b).sum(), [a, b])])
    for got, want in zip(*reversed(results)):
        close(got, want, rtol=1e-5, atol=1e-5)


def test_clamp_by_tensors() -> None:
    x, low, high = torch.randn(6, 1), torch.randn(5) - 1, torch.randn(6, 5) + 1
    high[0, 0] = NAN
    agree(torch.clamp, x, low, high)
    agree(lambda a, b: torch.clamp(a, max=b), x, high)
    agree(lambda a, b: torch.clamp(a, min=b), x, low)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_shift_operators(dtype: torch.dtype) -> None:
    x, n = torch.arange(60, dtype=dtype), torch.arange(60, dtype=dtype) % 5
    agree(lambda a, b: (a << b) + (a >> b) + (a << 2) + (a >> 1), x, n)
    got = x.to(DEVICE)
    got <<= n.to(DEVICE)
    got >>= 1
    close(got, (x << n) >> 1)


def test_errors_as_upstream() -> None:
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="huber_loss does not support non-positive values for delta"):
        F.huber_loss(x, x, delta=0.0)
    with pytest.raises(RuntimeError, match="Bool inputs not supported for hardtanh"):
        F.hardtanh(x.bool())
    if not since("2.15"):  # which clamps unsigned numbers
        with pytest.raises(RuntimeError, match="cannot do hardtanh on an unsigned type with negative limits"):
            F.hardtanh(x.to(torch.uint8))
    for a, b, text in ((2.0, 0.5, "input"), (NAN, 0.5, "input"), (0.5, -1.0, "target")):
        with pytest.raises(RuntimeError, match=f"all elements of {text} should be between 0 and 1"):
            F.binary_cross_entropy(x * a, x * b).cpu()
    with pytest.raises(RuntimeError, match="polygamma"):
        torch.polygamma(-1, x)
    with pytest.raises(RuntimeError, match="Halving dimension must be even"):
        F.glu(x)
    with pytest.raises(RuntimeError, match="nan_to_num: dtype of out"):
        torch.nan_to_num(x, out=x.double())
    with pytest.raises(RuntimeError, match="two bool tensors"):
        torch.rsub(x.bool(), x.bool())
    with pytest.raises(RuntimeError, match="ZeroDivisionError|division by zero"):
        torch.floor_divide(x.int(), torch.zeros(3, dtype=torch.int32, device=DEVICE)).cpu()


class OneLineOps(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = special.modified_bessel_i1(x) + torch.lgamma(x) * torch.polygamma(1, x)
        y = y + F.hardswish(x) + torch.logit(x, 0.1) + torch.nextafter(x, y) + torch.logaddexp2(x, y)
        return special.chebyshev_polynomial_t(y, torch.floor(x)) + torch.igamma(x, x + 1)


def test_ahead_of_time(tmp_path: Path) -> None:
    x = torch.rand(4, 9) * 3 + 0.5
    path = tmp_path / "ops.atl"
    torch_atalla.save_loadable(torch.export.export(OneLineOps(), (x,)), path, fallback="error")
    got = torch_atalla.load_loadable(path, device=DEVICE)(x.to(DEVICE))
    assert torch.equal(got.cpu(), OneLineOps()(x.to(DEVICE)).cpu())
    close(got, OneLineOps()(x), rtol=1e-4, atol=1e-5)
