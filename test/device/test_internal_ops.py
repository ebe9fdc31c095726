# SPDX-License-Identifier: BSD-3-Clause
"""Dense operators without a public function of their own: values, gradients and errors are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

import torch_atalla

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    torch.manual_seed(0)
    with torch_atalla.fallback.mode("error"):
        yield


def moved(value: Any) -> Any:
    return tree_map(lambda x: x.detach().to("atalla") if isinstance(x, torch.Tensor) else x, value)


def both(f: Callable[..., Any], *arguments: Any, **tolerance: Any) -> None:
    for mine, cpu in zip(tree_leaves(f(*moved(arguments))), tree_leaves(f(*arguments)), strict=True):
        assert (mine.device.type, mine.dtype) == ("atalla", cpu.dtype)
        torch.testing.assert_close(mine.cpu(), cpu, equal_nan=True, **tolerance)


def errors(f: Callable[..., Any], *arguments: Any, match: str) -> None:
    for given in (arguments, moved(arguments)):
        with pytest.raises(RuntimeError, match=match):
            f(*given)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64])
def test_add_relu(dtype: torch.dtype) -> None:
    a, b = torch.randint(-100, 100, (5, 6)).to(dtype), torch.randint(-100, 100, (6,)).to(dtype)
    for x in (a, a.t().contiguous().t(), a[:0]):
        both(aten._add_relu.Tensor, x, b)
        both(lambda x, b: aten._add_relu.Tensor(x, b, alpha=2), x, b)
        both(lambda x, b: aten._add_relu_.Tensor(x.clone(), b), x, b)
        both(lambda x, b: aten._add_relu.out(x, b, out=torch.empty_like(x)), x, b)
        both(lambda x: aten._add_relu.Scalar(x, 3), x)
        both(lambda x: aten._add_relu_.Scalar(x.clone(), -3), x)
    both(aten._add_relu.Tensor, torch.full((4,), float("inf")), torch.ones(4))
    for device in ("cpu", "atalla"):
        with pytest.raises(RuntimeError):
            aten._add_relu.Tensor(torch.ones(2, dtype=torch.bool, device=device), torch.ones(2, device=device) > 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:_aminmax is deprecated")
def test_aminmax(dtype: torch.dtype) -> None:
    x = (torch.randn(4, 5, 6) * 3).to(dtype)
    both(torch._aminmax, x)
    both(lambda t: torch._aminmax(t, 1), x.transpose(0, 2))
    both(lambda t: torch._aminmax(t, -1, keepdim=True), x)
    errors(torch._aminmax, x[:0].float(), match="aminmax")


@pytest.mark.parametrize("dtype", FLOATS)
def test_masked_softmax(dtype: torch.dtype) -> None:
    scores = torch.randn(2, 3, 4, 4, dtype=dtype)
    full, source, padding = torch.rand(2, 3, 4, 4) < 0.4, torch.rand(4, 4) < 0.4, torch.rand(2, 4) < 0.4
    near = {"rtol": 2e-3, "atol": 1e-5} if dtype in FLOATS[:2] else {"rtol": 1e-2, "atol": 1e-2}
    for mask, mask_type in ((full, 2), (source, 0), (padding, 1)):
        for dim in (None, -1, 1, 2):
            both(lambda s, m, d=dim, k=mask_type: torch._masked_softmax(s, m, d, k), scores, mask, **near)
    both(lambda s, m: torch._masked_softmax(s, m, 0), scores[0, 0], source, **near)
    strided, dense = moved((scores.transpose(1, 2), scores.transpose(1, 2).contiguous()))
    marked = moved(full.transpose(1, 2))
    found, expected = (torch._masked_softmax(s, marked, -1, 2).cpu() for s in (strided, dense))
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    output, mask = scores.softmax(-1), torch.rand(2, 3, 4, 4) < 0.4
    output = output.masked_fill(mask, 0)
    both(lambda g, o, m: aten._masked_softmax_backward(g, o, m, -1), torch.randn_like(scores), output, mask, **near)

    def gradient(s: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        leaf = s.detach().requires_grad_()
        torch._masked_softmax(leaf, m, -1, 2)[..., 0].sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    both(gradient, scores, mask & (torch.arange(4) != 1), **near)
    errors(lambda s, m: torch._masked_softmax(s, m, None, 0), scores, source.float(), match="boolean")
    errors(lambda s, m: torch._masked_softmax(s, m, None, 1), scores, source, match="should be")
    errors(lambda s, m: torch._masked_softmax(s, m, None, None), scores, source, match="Mask Type should be defined")
    errors(lambda s, m: torch._masked_softmax(s, m, None, 2), scores, full[:1], match="mask shape")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_combination(dtype: torch.dtype) -> None:
    terms, coefficients = torch.randn(3, 4, 5, dtype=dtype), torch.randn(2, 3, dtype=dtype)
    both(aten._compute_linear_combination, terms, coefficients)
    both(aten._compute_linear_combination, terms.transpose(1, 2), coefficients.t().contiguous().t())
    out = torch.ones(2, 4, 5, dtype=dtype)
    both(lambda t, c, o: aten._compute_linear_combination.out(t, c, out=o.clone()), terms, coefficients, out)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.uint8, torch.bool],
)
def test_hash_tensor(dtype: torch.dtype) -> None:
    x = (torch.randn(3, 7, 5) * 50).to(dtype)
    for f in (
        torch.hash_tensor,
        lambda t: torch.hash_tensor(t, 1),
        lambda t: torch.hash_tensor(t, (0, -1), keepdim=True),
        lambda t: torch.hash_tensor(t.transpose(0, 2), 0),
        lambda t: torch.hash_tensor(t[0, 0, 0]),
        lambda t: torch.hash_tensor(t.reshape(*[1] * 20, *t.shape), 21),
        lambda t: torch.hash_tensor(t, 2, out=torch.empty(0, dtype=torch.uint64, device=t.device)),
    ):
        both(f, x)
    errors(torch.hash_tensor, x[:0], match="Expected reduction dim")
    errors(torch.hash_tensor, x.reshape(*[1] * 65, -1), 0, match="only tensors with up to 64 dims are supported")


def test_assertions() -> None:
    token = aten._make_dep_token(device="atalla")
    assert token.device.type == "atalla" and token.shape == ()
    assert aten._functional_assert_async.msg(torch.ones((), device="atalla"), "why", token).device == token.device
    with pytest.raises(RuntimeError, match="why"):
        aten._functional_assert_async.msg(torch.zeros((), device="atalla"), "why", token)


def test_fractional_max_pool3d_backward_out() -> None:
    x, samples = torch.randn(1, 2, 6, 6, 6), torch.rand(1, 2, 3)
    out, indices = aten.fractional_max_pool3d(x, [2, 2, 2], [3, 3, 3], samples)
    both(
        lambda g, x, i: aten.fractional_max_pool3d_backward.grad_input(
            g, x, [2, 2, 2], [3, 3, 3], i, grad_input=torch.empty(0, device=g.device)
        ),
        torch.randn_like(out), x, indices,
    )  # fmt: skip


@pytest.mark.parametrize("by_channel", [False, True])
def test_learned_fake_quantization(by_channel: bool) -> None:
    x = torch.cat([torch.randn(4, 3, 5) * 3, torch.tensor([0.125, -0.125, 0.375, 50.0, -50.0]).expand(1, 3, 5)])
    scale = torch.tensor([0.25, 0.1, 0.5]) if by_channel else torch.tensor([0.1])
    zero = torch.tensor([0.0, 2.4, -9.0]) if by_channel else torch.tensor([2.0])
    axis = (1,) if by_channel else ()
    op = torch._fake_quantize_learnable_per_channel_affine if by_channel else (
        torch._fake_quantize_learnable_per_tensor_affine
    )  # fmt: skip

    def run(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> list[torch.Tensor]:
        leaves = [t.detach().clone().requires_grad_() for t in (x, scale, zero)]
        out = op(*leaves, *axis, -8, 7, 0.5)
        out.backward(torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out))
        return [out.detach(), *(t.grad for t in leaves if t.grad is not None)]

    both(run, x, scale, zero, rtol=1e-5, atol=1e-5)
    both(run, x.transpose(0, 2).contiguous().transpose(0, 2), scale, zero, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_samples(dtype: torch.dtype) -> None:
    """Over all regions of the approximations, and at their borders."""
    near = {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 2e-4, "atol": 1e-6}
    alpha = torch.cat([torch.logspace(-2, 3, 41), torch.tensor([8.0, 8.001])]).to(dtype)
    ratio = torch.cat([torch.logspace(-3, 1, 41), torch.tensor([0.9, 1.0, 1.1])]).to(dtype)
    both(torch._standard_gamma_grad, alpha[:, None].expand(-1, 44).contiguous(), alpha[:, None] * ratio, **near)
    x = torch.cat([torch.linspace(0.001, 0.999, 61), torch.tensor([0.5])]).to(dtype)
    parameters = torch.logspace(-1, 2, 16).to(dtype)
    alpha, beta = parameters[:, None, None], parameters[None, :, None]
    shape = (16, 16, 62)
    given = [t.expand(shape).contiguous() for t in (x, alpha, alpha + beta)]
    if dtype == torch.float64:
        both(torch._dirichlet_grad, *given, **near)
    else:  # the CPU's series in float32 cancel: its error is larger than the chip's
        exact = torch._dirichlet_grad(*(t.double() for t in given))
        mine = torch._dirichlet_grad(*moved(given)).cpu().double()
        kept = exact.abs() > 1e-6
        assert ((mine - exact).abs() / exact.abs())[kept].quantile(0.999) < 1e-3
    both(torch._standard_gamma_grad, alpha.flatten()[:0], alpha.flatten()[:0])
    errors(torch._dirichlet_grad, given[0], given[1].half(), given[2], match="")


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet", "StudentT", "Chi2"])
def test_reparameterized_samples(name: str) -> None:
    law = getattr(torch.distributions, name)
    count = {"Gamma": 2, "Beta": 2}.get(name, 1)
    leaves = [torch.full((3,), 2.5, device="atalla", requires_grad=True) for _ in range(count)]
    law(*leaves).rsample((500,)).square().sum().backward()
    assert all(leaf.grad is not None and leaf.grad.isfinite().all() for leaf in leaves)
