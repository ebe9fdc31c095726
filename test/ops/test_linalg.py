# SPDX-License-Identifier: BSD-3-Clause
"""Linear algebra where upstream's OpInfo samples do not reach: factors that are unique up to a phase are checked by
their equations, and strides, `info`, errors, degenerate matrices and blocked sizes against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, linalg

DEVICE = "atalla"
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
SHAPES = [(1, 1), (5, 5), (2, 3, 4, 4), (0, 3, 3), (2, 0, 0), (70, 70)]
RECTANGLES = [(5, 3), (3, 5), (2, 4, 4), (0, 3, 4), (3, 0), (0, 2), (80, 40), (40, 80)]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """LAPACK on the CPU spends more on waking threads than on matrices of these sizes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tolerance(dtype: torch.dtype) -> float:
    return 1e-10 if dtype in (torch.float64, torch.complex128) else 2e-4


def random(*shape: int, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, dtype=dtype)


def hermitian(*shape: int, dtype: torch.dtype) -> Tensor:
    a = random(*shape, dtype=dtype)
    return a + a.mH


def positive(*shape: int, dtype: torch.dtype) -> Tensor:
    a = random(*shape, dtype=dtype)
    return a @ a.mH + shape[-1] * torch.eye(shape[-1], dtype=dtype)


def close(got: Tensor, want: Tensor, scale: float = 1, strides: bool = False) -> None:
    limit = tolerance(want.dtype) * scale
    assert not strides or got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, rtol=limit, atol=limit)


def compare(f: Any, *args: Any, scale: float = 10, **kwargs: Any) -> None:
    """Values, dtypes and strides of f on the device and on the CPU."""
    want, got = f(*args, **kwargs), f(*(a.to(DEVICE) if isinstance(a, Tensor) else a for a in args), **kwargs)
    for g, w in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        close(g, w, scale, strides=True)


def identity_like(a: Tensor) -> Tensor:
    return torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)


# ------------------------------------------------------------------------------------------------ triangular factors
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_those_of_the_cpu(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a, p = random(*shape, dtype=dtype), positive(*shape, dtype=dtype)
    b = random(*shape[:-1], 3, dtype=dtype)
    for upper in (False, True):
        compare(linalg.cholesky_ex, p, upper=upper)
    factor = linalg.cholesky(p)
    compare(torch.cholesky_inverse, factor)
    compare(torch.cholesky_solve, b, factor)
    compare(linalg.lu_factor_ex, a)
    compare(linalg.lu, a)
    compare(linalg.qr, a)
    compare(linalg.solve, p, b)
    compare(linalg.solve, p, b.mT.contiguous(), left=False)
    compare(linalg.inv, p)
    lu, pivots = linalg.lu_factor(p)
    for left in (False, True):
        for adjoint in (False, True):
            compare(linalg.lu_solve, lu, pivots, b if left else b.mT.contiguous(), left=left, adjoint=adjoint)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
def test_triangular_solves(dtype: torch.dtype, left: bool, upper: bool, unitriangular: bool) -> None:
    for n in (1, 4, 70):
        a = random(2, n, n, dtype=dtype) / n + torch.eye(n, dtype=dtype)
        t, b = (a.triu() if upper else a.tril()), random(2, n, 3, dtype=dtype)
        b = b if left else b.mT.contiguous()
        options = {"upper": upper, "left": left, "unitriangular": unitriangular}
        for matrix in (t, t.mT.contiguous().mT):
            compare(linalg.solve_triangular, matrix, b, **options)
        got = linalg.solve_triangular(t.to(DEVICE).mH, b.to(DEVICE), **(options | {"upper": not upper}))
        close(got, linalg.solve_triangular(t.mH, b, **(options | {"upper": not upper})))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGLES)
def test_rectangular_factors(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = random(*shape, dtype=dtype)
    compare(linalg.lu, a)
    compare(torch.geqrf, a)
    for mode in ("reduced", "complete", "r"):
        compare(linalg.qr, a, mode)
    reflectors, tau = torch.geqrf(a)
    if shape[-2] >= shape[-1]:
        compare(linalg.householder_product, reflectors, tau)
    reflectors = reflectors[..., : tau.shape[-1]].contiguous()
    c = random(*shape[:-1], 4, dtype=dtype)
    for transpose in (False, True):
        compare(torch.ormqr, reflectors, tau, c, True, transpose)
        compare(torch.ormqr, reflectors, tau, c.mT.contiguous(), False, transpose)


def test_a_singular_matrix_is_told_by_info() -> None:
    a = torch.ones(2, 3, 3, device=DEVICE)
    a[1] = torch.eye(3)
    assert linalg.lu_factor_ex(a).info.tolist() == [2, 0]
    assert linalg.inv_ex(a).info.tolist() == [2, 0]
    assert linalg.cholesky_ex(-a).info.tolist() == [1, 1]
    for call in (linalg.inv, linalg.lu_factor, lambda x: linalg.solve(x, x)):
        for matrix in (a, a[0]):
            with pytest.raises(RuntimeError) as on_device:
                call(matrix)
            with pytest.raises(RuntimeError) as on_cpu:
                call(matrix.cpu())
            assert (type(on_device.value), str(on_device.value)) == (type(on_cpu.value), str(on_cpu.value))
    with pytest.raises(linalg.LinAlgError, match="the input is not positive-definite"):
        linalg.cholesky(-a)


def test_pivots_out_of_range_fault() -> None:
    lu, b = torch.eye(3, device=DEVICE), torch.ones(3, 1, device=DEVICE)
    for pivot in (0, 4):
        with pytest.raises((RuntimeError, IndexError), match="out of range"):
            linalg.lu_solve(lu, torch.tensor([1, pivot, 3], dtype=torch.int32, device=DEVICE), b)
            torch.accelerator.synchronize()


# ---------------------------------------------------------------------------------------------------- eigenvalues
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(shape: tuple[int, ...], dtype: torch.dtype, uplo: str) -> None:
    a = hermitian(*shape, dtype=dtype)
    half = a.tril() if uplo == "L" else a.triu()  # the other triangle is not read
    values, vectors = (t.cpu() for t in linalg.eigh(half.to(DEVICE), UPLO=uplo))  # dense: strides stay
    want = linalg.eigh(a)
    close(values, want[0], 10, strides=True)
    close(linalg.eigvalsh(half.to(DEVICE), UPLO=uplo), want[0], 10)
    assert vectors.stride() == want[1].stride()
    close(vectors.mH @ vectors, identity_like(a), 10)
    close(vectors * values.unsqueeze(-2) @ vectors.mH, a, 100)


def test_eig_keeps_the_strides_of_empty_outputs() -> None:
    a = torch.empty(0, 5, 5, device=DEVICE)
    for vectors in (torch.empty(0, 5, 5, dtype=torch.complex64, device=DEVICE), linalg.eig(a).eigenvectors):
        strides = vectors.stride()
        linalg.eig(a, out=(torch.empty(0, 5, dtype=torch.complex64, device=DEVICE), vectors))
        assert vectors.stride() == strides


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_eig(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = random(*shape, dtype=dtype)
    values, vectors = (t.cpu() for t in linalg.eig(a.to(DEVICE)))
    want = linalg.eig(a)
    if shape[-1] < 50:  # in LAPACK's order
        close(values, want[0], 10)
        close(vectors.abs(), want[1].abs(), 100)
    assert vectors.stride() == want[1].stride()
    close(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), 100)
    close(torch.linalg.vector_norm(vectors, dim=-2), torch.ones_like(values.real))
    close(linalg.eigvals(a.to(DEVICE)), values, 10)


def test_eigenvalues_of_special_matrices() -> None:
    for a in (
        torch.zeros(4, 4),
        torch.eye(4),
        torch.ones(5, 5),
        torch.diag(torch.tensor([3.0, -1, 2])),
        torch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]]),  # roots of unity
        torch.tensor([[2.0, 1], [0, 2]]),  # defective
        torch.tensor([[1.0, 0, 0], [1e8, 2, 1], [0, 1e-8, 3]]),  # wants balancing
        torch.tensor([[1e300, 1], [1, 1e300]], dtype=torch.float64),
    ):
        a = a.double()
        got, want = linalg.eigvals(a.to(DEVICE)).cpu(), linalg.eigvals(a)
        nearest = (got.unsqueeze(0) - want.unsqueeze(1)).abs()
        size = a.abs().max().clamp(min=1)
        assert (torch.maximum(nearest.amin(0).max(), nearest.amin(1).max()) / size).item() < 1e-6
        b = (a + a.mT) / 2
        close(linalg.eigvalsh(b.to(DEVICE)).cpu() / size, linalg.eigvalsh(b) / size, 10)
    for f in (linalg.eig, linalg.eigvals):
        with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
            f(torch.full((2, 2), float("nan"), device=DEVICE))


# ---------------------------------------------------------------------------------------------------- singular values
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGLES)
@pytest.mark.parametrize("full_matrices", [False, True])
@pytest.mark.parametrize("rank", [None, 2])
def test_svd(shape: tuple[int, ...], dtype: torch.dtype, full_matrices: bool, rank: int | None) -> None:
    a = random(*shape, dtype=dtype)
    if rank is not None:
        a = random(*shape[:-1], rank, dtype=dtype) @ random(*shape[:-2], rank, shape[-1], dtype=dtype)
    u, s, vh = (t.cpu() for t in linalg.svd(a.to(DEVICE), full_matrices=full_matrices))
    want = linalg.svd(a, full_matrices=full_matrices)
    close(s, want.S, 10, strides=True)
    assert (u.shape, u.stride(), vh.shape, vh.stride()) == (
        want.U.shape,
        want.U.stride(),
        want.Vh.shape,
        want.Vh.stride(),
    )
    k = s.shape[-1]
    close(u.mH @ u, identity_like(u.mH @ u))
    close(vh @ vh.mH, identity_like(vh @ vh.mH))
    close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a, 100)
    close(linalg.svdvals(a.to(DEVICE)), want.S, 10)


def test_svd_of_extreme_numbers() -> None:
    for scale in (1e-300, 1e-160, 1e160, 1e300):
        a = random(4, 3, dtype=torch.float64)
        got = linalg.svdvals((a * scale).to(DEVICE)).cpu() / scale
        close(got, linalg.svdvals(a), 1e4)
    zero = linalg.svd(torch.zeros(3, 2, device=DEVICE))
    close(zero.U.mH @ zero.U, torch.eye(3))
    with pytest.raises(linalg.LinAlgError, match="non-finite values"):
        linalg.svd(torch.full((2, 2), float("nan"), device=DEVICE))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss", None])
def test_lstsq(dtype: torch.dtype, driver: str | None) -> None:
    for shape in RECTANGLES:
        a, b = random(*shape, dtype=dtype), random(*shape[:-1], 2, dtype=dtype)
        for right in (b, b[..., 0].contiguous()):
            compare(linalg.lstsq, a, right, driver=driver, scale=100)
        if driver == "gels":
            continue
        low = random(*shape[:-1], 2, dtype=dtype) @ random(*shape[:-2], 2, shape[-1], dtype=dtype)
        compare(linalg.lstsq, low, b, rcond=1e-4, driver=driver, scale=1000)
    with pytest.raises(linalg.LinAlgError, match="does not have full rank"):
        linalg.lstsq(torch.eye(3, 2, device=DEVICE)[:, [0, 0]] * 0.5, torch.ones(3, 1, device=DEVICE), driver="gels")
    with pytest.raises(RuntimeError, match="parameter `driver` should be one of"):
        linalg.lstsq(torch.zeros(3, 2, device=DEVICE), torch.ones(3, 1, device=DEVICE), driver="qr")


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_and_order_are_those_of_the_cpu(dtype: torch.dtype) -> None:
    a, h = random(2, 40, 40, dtype=dtype), hermitian(2, 40, 40, dtype=dtype)
    for f, x in ((linalg.eig, a), (linalg.svd, a), (linalg.svd, a[:, :, :30]), (linalg.eigh, h)):
        compare(f, x, scale=1000)


# ---------------------------------------------------------------------------------------------------- the others
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_hermitian", [False, True])
def test_ldl(shape: tuple[int, ...], dtype: torch.dtype, is_hermitian: bool) -> None:
    a = random(*shape, dtype=dtype)
    a = a + (a.mH if is_hermitian else a.mT)
    compare(linalg.ldl_factor, a, hermitian=is_hermitian)
    ld, pivots = linalg.ldl_factor(a.to(DEVICE), hermitian=is_hermitian)
    b = random(*shape[:-1], 2, dtype=dtype)
    x = linalg.ldl_solve(ld, pivots, b.to(DEVICE), hermitian=is_hermitian).cpu()
    close(a @ x, b, 1000)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_exp(dtype: torch.dtype) -> None:
    for scale in (0, 1e-3, 0.1, 0.3, 1, 10):
        a = random(3, 6, 6, dtype=dtype) * scale
        want = linalg.matrix_exp(a.to(torch.complex128 if a.is_complex() else torch.float64))
        got = linalg.matrix_exp(a.to(DEVICE)).cpu().to(want.dtype)
        worst = ((got - want).abs().amax((-2, -1)) / want.abs().amax((-2, -1))).max().item()
        assert worst < tolerance(dtype)
    nilpotent = torch.tensor([[0.0, 1], [0, 0]], dtype=dtype)
    close(linalg.matrix_exp(nilpotent.to(DEVICE)), torch.tensor([[1.0, 1], [0, 1]], dtype=dtype))
    assert linalg.matrix_exp(torch.full((2, 2), float("inf"), dtype=dtype, device=DEVICE)).isnan().all().item()


def test_results_do_not_depend_on_the_batch() -> None:
    a = random(17, 20, 20, dtype=torch.float64)
    p = positive(17, 20, 20, dtype=torch.float64)
    for f in (linalg.lu, linalg.qr, linalg.eig, linalg.svd, linalg.inv, linalg.matrix_exp):
        whole = f(a.to(DEVICE))
        one = f(a[11].to(DEVICE))
        for batch, o in zip(whole, one, strict=True) if isinstance(whole, tuple) else [(whole, one)]:
            assert torch.equal(batch[11].cpu(), o.cpu())
    for f in (linalg.cholesky, linalg.eigvalsh):
        assert torch.equal(f(p.to(DEVICE))[11].cpu(), f(p[11].to(DEVICE)).cpu())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve_broadcasts(dtype, left, adjoint):
    """Batches of the factors and of the right-hand sides need not be equal."""
    lu, pivots = linalg.lu_factor(random(3, 4, 4, dtype=dtype) + 4 * torch.eye(4, dtype=dtype))
    for batch, (f, p) in (((2, 3), (lu, pivots)), ((2, 1), (lu, pivots)), ((5,), (lu[0], pivots[0]))):
        b = random(*batch, *((4, 2) if left else (2, 4)), dtype=dtype)
        want = linalg.lu_solve(f, p, b, left=left, adjoint=adjoint)
        got = linalg.lu_solve(f.to(DEVICE), p.to(DEVICE), b.to(DEVICE), left=left, adjoint=adjoint)
        torch.testing.assert_close(got.cpu(), want, rtol=tolerance(dtype), atol=tolerance(dtype))
