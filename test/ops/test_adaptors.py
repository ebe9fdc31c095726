# SPDX-License-Identifier: BSD-3-Clause
"""Adaptors from op arguments to launches: which kernels they launch, and values against the CPU where OpInfo samples do
not reach (aliasing, non-adjacent indices, mixed dtypes, random statistics, the attention backend)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import torch_atalla  # noqa: F401
from torch_atalla import telemetry

DEVICE = "atalla"
FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.float64: 1e-7}


def launched(f: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, list[str]]:
    """The result of f, on the CPU, and the names of the kernels that f launched."""
    torch.zeros(1, device=DEVICE).cpu()
    since = telemetry.launches()[-1].sequence + 1
    out = f()
    torch.accelerator.synchronize()
    names = [launch.kernel for launch in telemetry.launches(since=since)]
    return out.cpu(), names


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    tolerance = TOLERANCE.get(want.dtype, 0)
    torch.testing.assert_close(got.cpu(), want, atol=tolerance, rtol=tolerance, equal_nan=True)


# ---------------------------------------------------------------------------------------------------- matrix products
@pytest.mark.parametrize("dtype", FLOATING)
def test_linear_is_one_launch(dtype: torch.dtype) -> None:
    x, w, b = torch.randn(6, 32, dtype=dtype), torch.randn(16, 32, dtype=dtype), torch.randn(16, dtype=dtype)
    xd, wd, bd = x.to(DEVICE), w.to(DEVICE), b.to(DEVICE)
    got, kernels = launched(lambda: F.linear(xd, wd, bd))
    assert kernels == ["gemm"]  # the transposed weight and the expanded bias are not copied
    want = F.linear(x.double(), w.double(), b.double()).to(dtype)
    torch.testing.assert_close(got, want, atol=20 * TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def test_addmm_beta_zero_ignores_the_addend() -> None:
    c = torch.full((3, 5), math.nan)
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    close(torch.addmm(c.to(DEVICE), a.to(DEVICE), b.to(DEVICE), beta=0), a @ b)


def test_addmm_without_contraction() -> None:
    c = torch.randn(3, 5)
    a, b = torch.empty(3, 0), torch.empty(0, 5)
    close(torch.addmm(c.to(DEVICE), a.to(DEVICE), b.to(DEVICE), beta=2), 2 * c)
    close(a.to(DEVICE) @ b.to(DEVICE), torch.zeros(3, 5))


def test_addmm_in_place_and_into_an_operand() -> None:
    c, a, b = torch.randn(4, 4), torch.randn(4, 4), torch.randn(4, 4)
    want = torch.addmm(c, a, b, beta=0.5, alpha=2)
    cd, ad, bd = c.to(DEVICE), a.to(DEVICE), b.to(DEVICE)
    close(torch.addmm(cd, ad, bd, beta=0.5, alpha=2, out=ad), want)
    close(cd.addmm_(a.to(DEVICE), bd, beta=0.5, alpha=2), want)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_integer_products_wrap(dtype: torch.dtype) -> None:
    top = torch.iinfo(dtype).max
    a = torch.tensor([[top, 3], [2, top]], dtype=dtype)
    c = torch.tensor([[1, 2]], dtype=dtype)
    want = torch.addmm(c, a, a, beta=3, alpha=2)
    close(torch.addmm(c.to(DEVICE), a.to(DEVICE), a.to(DEVICE), beta=3, alpha=2), want)


def test_mixed_dtypes_are_refused() -> None:
    a, b = torch.ones(2, 2, device=DEVICE), torch.ones(2, 2, dtype=torch.float64, device=DEVICE)
    with pytest.raises(RuntimeError, match="same dtype"):
        a @ b
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.dot(a[0], b[0])


def test_addmm_activation() -> None:
    c, a, b = torch.randn(5), torch.randn(3, 4), torch.randn(4, 5)
    for use_gelu, activation in ((False, F.relu), (True, F.gelu)):
        got = torch._addmm_activation(c.to(DEVICE), a.to(DEVICE), b.to(DEVICE), use_gelu=use_gelu)
        close(got, activation(torch.addmm(c, a, b)))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_convolution_of_integers_wraps_around(dtype: torch.dtype, transposed: bool) -> None:
    limit = min(torch.iinfo(dtype).max, 1 << 40)
    shapes = [(2, 4, 7, 6), (4, 3, 3, 2) if transposed else (6, 2, 3, 2), (6,)]
    x, weight, bias = (torch.randint(limit // 2, limit, shape, dtype=dtype) for shape in shapes)
    function = F.conv_transpose2d if transposed else F.conv2d
    found = function(x.to(DEVICE), weight.to(DEVICE), bias.to(DEVICE), stride=2, padding=1, groups=2)
    # PyTorch has this sum on the CPU for int64 only; the others are its remainders.
    wide = function(x.long(), weight.long(), bias.long(), stride=2, padding=1, groups=2)
    assert found.dtype == dtype and torch.equal(found.cpu(), wide.to(dtype))


# ---------------------------------------------------------------------------------------------------- normalization
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_layer_norm_statistics_dtype(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 8, dtype=dtype)
    for parameter_dtype in (dtype, torch.float32):
        w, b = torch.randn(8, dtype=parameter_dtype), torch.randn(8, dtype=parameter_dtype)
        want = torch.native_layer_norm(x, (8,), w, b, 1e-5)
        got = torch.native_layer_norm(x.to(DEVICE), (8,), w.to(DEVICE), b.to(DEVICE), 1e-5)
        for g, t in zip(got, want, strict=True):
            assert g.dtype == t.dtype and g.shape == t.shape
            torch.testing.assert_close(g.cpu(), t, atol=3e-2, rtol=3e-2)


def test_half_to_float_softmax_is_refused() -> None:
    x = torch.ones(2, 3, dtype=torch.float16, device=DEVICE)
    with pytest.raises(RuntimeError, match="softmax with half to float conversion is not supported"):
        torch._softmax(x, 1, True)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax_gradient(function: Callable, dtype: torch.dtype) -> None:
    x, g = torch.randn(3, 5, 4, dtype=dtype), torch.randn(3, 5, 4, dtype=dtype)
    grads = []
    for device in ("cpu", DEVICE):
        leaf = x.detach().to(device).requires_grad_()
        function(leaf, dim=1).backward(g.to(device))
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[1].cpu(), grads[0], atol=4 * TOLERANCE[dtype], rtol=4 * TOLERANCE[dtype])


# ---------------------------------------------------------------------------------------------------- indexing
INDEXINGS = {
    "one": lambda x, i, j: x[i],
    "last": lambda x, i, j: x[..., i],
    "adjacent": lambda x, i, j: x[:, i, j],
    "apart": lambda x, i, j: x[i, :, j],
    "apart at the end": lambda x, i, j: x[:, i, :, j],
    "with an integer": lambda x, i, j: x[i, 1],
    "with a new dimension": lambda x, i, j: x[i, None, j],
    "transposed": lambda x, i, j: x.transpose(0, 2)[:, i, j],
    "int32": lambda x, i, j: x[i.int()],
    "empty": lambda x, i, j: x[i[:0], j[:, :0]],
}


@pytest.mark.parametrize("name", INDEXINGS)
@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float32, torch.complex64])
def test_index(name: str, dtype: torch.dtype) -> None:
    x = torch.randint(-9, 9, (3, 4, 5, 6)).to(dtype)
    i, j = torch.tensor([0, -1, 2]), torch.tensor([[1], [2], [0]])
    want = INDEXINGS[name](x, i, j)
    got = INDEXINGS[name](x.to(DEVICE), i.to(DEVICE), j.to(DEVICE))
    assert torch.equal(got.cpu(), want)
    assert torch.equal(INDEXINGS[name](x.to(DEVICE), i, j).cpu(), want)  # index tensors on the CPU


def test_index_by_a_mask_that_covers_two_dimensions() -> None:
    x = torch.randn(3, 4, 5)
    mask = torch.rand(4, 5) > 0.5
    got = x.to(DEVICE)[:, mask.to(DEVICE)]
    assert torch.equal(got.cpu(), x[:, mask])


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_out_of_range_faults(dim: int) -> None:
    x = torch.randn(3, 4, device=DEVICE)
    with pytest.raises(IndexError, match="index 9"):
        torch.index_select(x, dim, torch.tensor([0, 9], device=DEVICE)).cpu()
    assert torch.zeros(2, device=DEVICE).cpu().sum() == 0  # the device goes on


def test_embedding_runs_natively() -> None:
    weight, ids = torch.randn(10, 4), torch.tensor([[1, 2], [3, 1]])
    got, kernels = launched(lambda: F.embedding(ids.to(DEVICE), weight.to(DEVICE), padding_idx=1))
    assert kernels == ["index_select"] and torch.equal(got, F.embedding(ids, weight, padding_idx=1))


# ---------------------------------------------------------------------------------------------------- joining
def test_cat_is_one_launch() -> None:
    parts = [torch.randn(2, 3), torch.empty(0), torch.randn(2, 0), torch.randn(4, 2).t()]
    device_parts = [p.to(DEVICE) for p in parts]
    got, kernels = launched(lambda: torch.cat(device_parts, 1))
    assert kernels == ["cat"] and torch.equal(got, torch.cat(parts, 1))
    got, kernels = launched(lambda: torch.cat(device_parts[:3], 1))
    assert kernels == ["copy"] and torch.equal(got, parts[0])


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x, "transposed": lambda x: x.t(), "every second": lambda x: x[:, ::2],
    "expanded": lambda x: x[:, :1].expand(x.shape), "truth values": lambda x: x > 0, "complex": lambda x: x + 1j,
}  # fmt: skip


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("count", [1, 2, 11, 12, 15, 16, 40])
def test_cat_of_many(count: int, layout: str) -> None:
    whole = [torch.randn(4, 4) for _ in range(count)]
    parts, device_parts = ([LAYOUTS[layout](x.to(device)) for x in whole] for device in ("cpu", DEVICE))
    for dim in (0, 1, -1):
        got, kernels = launched(lambda dim=dim: torch.cat(device_parts, dim))
        assert torch.equal(got, torch.cat(parts, dim)) and len(kernels) == -(-count // 11)


@pytest.mark.parametrize("dim", [0, 1])
def test_cat_of_several_dtypes(dim: int) -> None:
    dtypes = [torch.float32] * 3 + [torch.int32, torch.bfloat16] + [torch.float32] * 13 + [torch.bool, torch.float32]
    parts = [torch.randn(4, 4).mul(9).to(dtype) for dtype in dtypes]
    parts[7:7] = [torch.empty(0), torch.empty(4, 0) if dim else torch.empty(0, 4)]
    device_parts = [x.to(DEVICE) for x in parts]
    got, kernels = launched(lambda: torch.cat(device_parts, dim))
    assert torch.equal(got, torch.cat(parts, dim))
    assert kernels == ["cat", "copy", "copy", "cat", "cat", "copy", "copy"]


def test_cat_converts_and_writes_strided() -> None:
    parts = [torch.randn(2, 3), torch.ones(1, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bfloat16)]
    want = torch.cat(parts)
    assert torch.equal(torch.cat([p.to(DEVICE) for p in parts]).cpu(), want)
    out = torch.empty(3, 5, device=DEVICE).t()
    assert torch.equal(torch.cat([p.to(DEVICE) for p in parts], out=out).cpu(), want)


def test_cat_of_two_devices_is_refused() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.cat([torch.ones(2, device=DEVICE), torch.ones(2)])


# ---------------------------------------------------------------------------------------------------- reductions
def test_reductions_of_nothing() -> None:
    x = torch.empty(0, 3, device=DEVICE)
    assert x.sum().item() == 0 and x.prod().item() == 1 and math.isnan(x.mean().item())
    assert x.all().item() is True and x.any().item() is False
    assert torch.equal(x.sum(0).cpu(), torch.zeros(3)) and x.sum(1).shape == (0,)
    assert torch.equal(x.logsumexp(0).cpu(), torch.full((3,), -math.inf))
    for reduction in (torch.max, torch.min, torch.argmax, torch.amax):
        with pytest.raises((RuntimeError, IndexError), match="dim"):
            reduction(x)


def test_empty_dims_mean_all_but_for_any_and_all() -> None:
    x = torch.tensor([[0.0, 2.0], [3.0, 4.0]])
    xd = x.to(DEVICE)
    assert xd.sum([]).item() == 9 and xd.amax([]).item() == 4
    assert torch.equal(torch.any(xd, []).cpu(), x != 0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float16])
def test_sum_and_prod_accumulate_in_the_result_dtype(dtype: torch.dtype) -> None:
    x = torch.ones(3, 1000).to(dtype)
    for want_dtype in (None, torch.float32, torch.int64):
        assert torch.equal(x.to(DEVICE).sum(1, dtype=want_dtype).cpu(), x.sum(1, dtype=want_dtype))
        assert torch.equal(x.to(DEVICE).prod(dtype=want_dtype).cpu(), x.prod(dtype=want_dtype))


def test_extremes_propagate_nan() -> None:
    x = torch.tensor([[1.0, math.nan, 3.0], [4.0, 5.0, 5.0]], device=DEVICE)
    values, indices = x.max(1)
    assert math.isnan(values[0].item()) and indices.tolist() == [1, 1]
    assert x.argmax().item() == 1 and math.isnan(x.amin().item())


def test_variance_warns_without_degrees_of_freedom() -> None:
    x = torch.ones(1, device=DEVICE)
    with pytest.warns(UserWarning, match=r"var\(\): degrees of freedom is <= 0"):
        assert math.isnan(torch.var(x).item())


@pytest.mark.parametrize("ord", [0, 0.5, 1, 2, 3, math.inf, -math.inf, -1])
def test_vector_norm(ord: float) -> None:
    x = torch.randn(4, 6)
    close(torch.linalg.vector_norm(x.to(DEVICE), ord, dim=1), torch.linalg.vector_norm(x, ord, dim=1))
    half = torch.linalg.vector_norm(x.half().to(DEVICE), ord)
    torch.testing.assert_close(half.cpu(), torch.linalg.vector_norm(x.half(), ord), atol=1e-2, rtol=1e-2)


# ---------------------------------------------------------------------------------------------------- attention
def qkv(dtype: torch.dtype, **kwargs) -> list[torch.Tensor]:
    return [torch.randn(2, 4, n, 8, dtype=dtype, **kwargs) for n in (5, 7, 7)]


ATTENTION = {
    "plain": lambda dtype: {},
    "causal": lambda dtype: {"is_causal": True},
    "scale": lambda dtype: {"scale": 0.3},
    "additive mask": lambda dtype: {"attn_mask": torch.randn(5, 7, dtype=dtype)},
    "boolean mask": lambda dtype: {"attn_mask": torch.ones(2, 1, 5, 7).tril(1) > 0},
    "row masked out": lambda dtype: {"attn_mask": torch.arange(5)[:, None].expand(5, 7) != 2},
}


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("case", ATTENTION)
def test_attention(case: str, dtype: torch.dtype) -> None:
    inputs, kwargs = qkv(dtype), ATTENTION[case](dtype)
    want = F.scaled_dot_product_attention(*inputs, **kwargs)
    device_inputs = [t.to(DEVICE) for t in inputs]
    device_kwargs = {k: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    got, kernels = launched(lambda: F.scaled_dot_product_attention(*device_inputs, **device_kwargs))
    assert "attention" in kernels and "softmax" not in kernels and "gemm" not in kernels
    close(got, want)


def test_attention_of_grouped_queries() -> None:
    q, k, v = qkv(torch.float32)
    k, v = k[:, :2], v[:, :2, :, :3]
    want = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    close(F.scaled_dot_product_attention(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), enable_gqa=True), want)


def test_attention_logsumexp() -> None:
    q, k, v = qkv(torch.float32)
    got = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE))
    close(got[1], torch.logsumexp(q @ k.transpose(-1, -2) / math.sqrt(8), -1))
    assert got[4:6] == (5, 7)


def test_attention_backend() -> None:
    def choice(*args, **kwargs) -> int:
        return torch._fused_sdp_choice(*args, **kwargs)

    fused, math_backend = (int(b) for b in (torch._C._SDPBackend.OVERRIDEABLE, torch._C._SDPBackend.MATH))
    q, k, v = qkv(torch.float32, device=DEVICE)
    assert choice(q, k, v) == fused
    assert choice(q, k, v, dropout_p=0.1) == math_backend
    assert choice(q[0], k[0], v[0]) == math_backend
    for allowed, expected in ((SDPBackend.MATH, math_backend), (SDPBackend.FLASH_ATTENTION, fused)):
        with sdpa_kernel(allowed):
            assert choice(q, k, v) == expected
    leaf = q.clone().requires_grad_()
    assert choice(leaf, k, v) == math_backend
    with torch.no_grad():
        assert choice(leaf, k, v) == fused
    F.scaled_dot_product_attention(leaf, k, v).sum().backward()
    assert leaf.grad is not None and leaf.grad.shape == q.shape


def test_attention_refuses_what_the_kernel_does_not_take() -> None:
    q, k, v = qkv(torch.float32, device=DEVICE)
    with pytest.raises(NotImplementedError, match="dropout_p=0.5"):
        torch.ops.aten._scaled_dot_product_fused_attention_overrideable(q, k, v, None, 0.5)
    with pytest.raises(NotImplementedError, match="expects query"):
        torch.ops.aten._scaled_dot_product_fused_attention_overrideable(q, k[:, :3], v[:, :3])


# ---------------------------------------------------------------------------------------------------- random numbers
@pytest.mark.parametrize("dtype", FLOATING)
def test_random_statistics(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    n = 100_000
    x = torch.empty(n, dtype=dtype, device=DEVICE)
    slack = 6 / math.sqrt(n) + (0.01 if dtype == torch.bfloat16 else 0)  # six standard errors, and bfloat16's grid

    def moments() -> tuple[float, float]:
        values = x.cpu().double()
        return values.mean().item(), values.std().item()

    x.uniform_(-2, 2)
    mean, std = moments()
    assert abs(mean) < 2 * slack and abs(std - 4 / math.sqrt(12)) < 2 * slack
    assert x.amin().item() >= -2 and x.amax().item() < 2
    x.normal_(1, 2)
    mean, std = moments()
    assert abs(mean - 1) < 2 * slack and abs(std - 2) < 2 * slack
    x.exponential_(2)
    mean, std = moments()
    assert abs(mean - 0.5) < slack and abs(std - 0.5) < 2 * slack and x.amin().item() > 0
    x.bernoulli_(0.3)
    assert abs(moments()[0] - 0.3) < slack
    assert set(x.cpu().double().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_random_integers(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    x = torch.empty(20_000, dtype=dtype, device=DEVICE)
    top = 1 if dtype == torch.bool else torch.iinfo(dtype).max
    values = x.random_().cpu().double()
    assert values.min() >= 0 and values.max() <= top and abs(values.mean().item() / top - 0.5) < 0.02
    if dtype != torch.bool:
        assert sorted(set(x.random_(2, 5).tolist())) == [2, 3, 4]
        assert sorted(set(x.random_(3).tolist())) == [0, 1, 2]


def test_random_values_follow_the_seed_alone() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.randn(1000, device=DEVICE).cpu()

    assert torch.equal(draw(7), draw(7)) and not torch.equal(draw(7), draw(8))
    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(7)
    assert torch.equal(torch.randn(1000, device=DEVICE, generator=generator).cpu(), draw(7))
    torch.manual_seed(7)
    strided = torch.empty(20, 50, device=DEVICE).t().normal_()
    assert torch.equal(strided.cpu().reshape(-1), draw(7))
    torch.manual_seed(7)
    first, second = torch.randn(1000, device=DEVICE).cpu(), torch.randn(1000, device=DEVICE).cpu()
    assert not torch.equal(first, second)


BAD_DRAWS = {
    "'from' to be less than 'to'": lambda x: x.random_(5, 2),
    r"\[from, to\) range": lambda x: x.uniform_(3, 1),
    "std >= 0.0": lambda x: x.normal_(0, -1),
    r"p to be in \[0, 1\]": lambda x: x.bernoulli_(2.0),
    "lambda > 0.0": lambda x: x.exponential_(0),
    "out of bounds": lambda x: x.byte().random_(0, 1000),
    "device type for generator": lambda x: x.normal_(generator=torch.Generator()),
}


@pytest.mark.parametrize("message", BAD_DRAWS)
def test_bad_random_arguments(message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        BAD_DRAWS[message](torch.ones(3, device=DEVICE))


def test_dropout_scales_and_its_gradient_follows_the_mask() -> None:
    x = torch.ones(100, 100, device=DEVICE, requires_grad=True)
    y = F.dropout(x, 0.4)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    kept = (y.detach().cpu() != 0).double().mean().item()
    assert abs(kept - 0.6) < 0.03 and abs(y.amax().item() - 1 / 0.6) < 1e-6


def test_multinomial() -> None:
    p = torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]], device=DEVICE)
    draws = torch.multinomial(p, 4000, replacement=True).cpu()
    assert draws.shape == (2, 4000) and set(draws[1].tolist()) == {1} and set(draws[0].tolist()) == {0, 2}
    assert abs((draws[0] == 2).double().mean().item() - 0.75) < 0.05
    assert torch.multinomial(p, 1).shape == (2, 1)
    with pytest.raises(RuntimeError, match="probability tensor contains"):
        torch.multinomial(-p, 2)
    with pytest.raises(RuntimeError, match="encountering probability entry < 0"):
        torch.multinomial(-p, 2, replacement=True)
    with pytest.raises(RuntimeError, match="entry = infinity or NaN"):
        torch.multinomial(p + torch.inf, 2, replacement=True)


# ---------------------------------------------------------------------------------------------------- ranges
@pytest.mark.parametrize("dtype", [torch.int16, torch.int64, torch.float16, torch.float32, torch.float64])
def test_ranges(dtype: torch.dtype) -> None:
    for args in ((0, 10, 3), (10, -1, -4), (5, 5, 1)):
        assert torch.equal(torch.arange(*args, dtype=dtype, device=DEVICE).cpu(), torch.arange(*args, dtype=dtype))
    for args in ((-3.7, 4.3, 50), (10, 2, 7), (1, 5, 1), (1, 5, 0)):
        close(torch.linspace(*args, dtype=dtype, device=DEVICE), torch.linspace(*args, dtype=dtype))


def test_range_into_a_strided_output() -> None:
    out = torch.empty(6, 2, device=DEVICE)[:, 1]
    assert torch.equal(torch.arange(6, out=out).cpu(), torch.arange(6.0))
    transposed = torch.empty(3, 2, device=DEVICE).t()
    assert torch.equal(torch.arange(6, out=transposed).cpu(), torch.arange(6.0).reshape(2, 3))
    with pytest.warns(UserWarning, match="does not match the computed number of elements"):
        torch.arange(7, out=transposed)


@pytest.mark.parametrize("diagonal", [-5, -1, 0, 2, 9])
def test_triangles_in_place(diagonal: int) -> None:
    x = torch.randn(2, 4, 6)
    for name in ("tril", "triu"):
        want = getattr(x, name)(diagonal)
        assert torch.equal(getattr(x.to(DEVICE), name)(diagonal).cpu(), want)
        assert torch.equal(getattr(x.to(DEVICE), name + "_")(diagonal).cpu(), want)


HUGE = 2**63 - 1
BAD_GEOMETRY = {
    "expected -2147483648 to 2147483648": lambda d: F.conv1d(
        torch.ones(1, 2, 8, device=d), torch.ones(2, 2, 3, device=d), padding=1, dilation=HUGE
    ),
    "output padding must be smaller than either stride or dilation": lambda d: F.conv_transpose2d(
        torch.ones(1, 2, 4, 4, device=d), torch.ones(2, 2, 3, 3, device=d), stride=2, output_padding=2
    ),
    r"Expected X.numel\(\) == N \* C \* HxW": lambda d: torch.native_group_norm(
        torch.ones(2, 4, 3, device=d), None, None, 255, 4, 3, 2, 1e-5
    ),
}


@pytest.mark.parametrize("message", BAD_GEOMETRY)
def test_geometry_that_no_launch_has(message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        BAD_GEOMETRY[message](DEVICE).cpu()
