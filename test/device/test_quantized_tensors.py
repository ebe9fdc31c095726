# SPDX-License-Identifier: BSD-3-Clause
"""Tensors with a scale and a zero point, on the device against the CPU."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_atalla

DTYPES = [torch.qint8, torch.quint8, torch.qint32]


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


def same(mine: torch.Tensor, cpu: torch.Tensor) -> None:
    assert mine.device.type == "atalla"
    assert (mine.dtype, mine.shape, mine.stride()) == (cpu.dtype, cpu.shape, cpu.stride())
    if not cpu.is_quantized:
        torch.testing.assert_close(mine.cpu(), cpu, rtol=0, atol=0)
        return
    assert mine.qscheme() == cpu.qscheme()
    if cpu.qscheme() == torch.per_tensor_affine:
        assert (mine.q_scale(), mine.q_zero_point()) == (cpu.q_scale(), cpu.q_zero_point())
    assert torch.equal(mine.int_repr().cpu(), cpu.int_repr())
    assert torch.equal(mine.dequantize().cpu(), cpu.dequantize())


def both(f: Callable[..., torch.Tensor], *arguments: Any) -> None:
    same(f(*(a.to("atalla") if isinstance(a, torch.Tensor) else a for a in arguments)), f(*arguments))


def quantized(*shape: int, dtype: torch.dtype = torch.qint8) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(*shape), 0.05, 10, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_per_tensor(dtype: torch.dtype) -> None:
    x = torch.tensor([-100.0, -1.0, -0.05, -0.025, 0.0, 0.0125, 0.025, 0.075, 0.3, 6.6, 100.0, 1e12])
    for scale, zero_point in ((0.05, 10), (0.1, 0), (1.0, 127), (3.0, 2)):
        both(lambda t, s=scale, z=zero_point: torch.quantize_per_tensor(t, s, z, dtype), x)
    big = torch.randn(7, 300, generator=torch.Generator().manual_seed(0)) * 3  # without values near a tie
    both(lambda t: torch.quantize_per_tensor(t, 0.02, 3, dtype), big)
    both(lambda t: torch.quantize_per_tensor(t, 0.02, 3, dtype).dequantize(), big)
    both(lambda t: torch.quantize_per_tensor(t, torch.tensor(0.02), torch.tensor(3), dtype), big)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("zero_dtype", [torch.int64, torch.float32], ids=str)
def test_per_channel(dtype: torch.dtype, zero_dtype: torch.dtype) -> None:
    if zero_dtype == torch.float32 and dtype == torch.qint32:
        return
    x, scales = torch.randn(3, 4, 5), torch.tensor([0.1, 0.02, 0.3, 1.0])
    zeros = torch.tensor([0, 3, 1, 5]).to(zero_dtype)
    both(lambda t, s, z: torch.quantize_per_channel(t, s, z, 1, dtype), x, scales, zeros)
    mine = torch.quantize_per_channel(x.to("atalla"), scales.to("atalla"), zeros.to("atalla"), 1, dtype)
    assert mine.q_per_channel_axis() == 1
    torch.testing.assert_close(mine.q_per_channel_scales().cpu().float(), scales)
    same(mine.cpu().to("atalla"), mine.cpu())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_making(dtype: torch.dtype) -> None:
    q = torch._empty_affine_quantized((2, 3), scale=3.0, zero_point=2, dtype=dtype, device="atalla")
    assert (q.shape, q.q_scale(), q.q_zero_point(), q.dtype) == ((2, 3), 3.0, 2, dtype)
    integers = torch.arange(6).view(2, 3).to(quantized(1, dtype=dtype).int_repr().dtype)
    both(lambda t: torch._make_per_tensor_quantized_tensor(t, 0.5, 1), integers)
    scales, zeros = torch.tensor([0.5, 0.25, 1.0]), torch.tensor([0, 1, 2])
    both(lambda t, s, z: torch._make_per_channel_quantized_tensor(t, s, z, 1), integers, scales, zeros)
    made = torch._empty_per_channel_affine_quantized((2, 3), scales=scales.to("atalla"), axis=1, dtype=dtype,
                                                     zero_points=zeros.to("atalla"), device="atalla")  # fmt: skip
    assert made.q_per_channel_axis() == 1


@pytest.mark.skipif(torch.atalla.device_count() < 2, reason="needs two devices")
@pytest.mark.parametrize("current", [0, 1])
def test_device_that_is_not_current(current: int) -> None:
    device, x = torch.device("atalla", 1 - current), torch.randn(3, 4)
    scales, zeros = torch.tensor([0.1, 0.02, 0.3, 1.0]), torch.tensor([0, 3, 1, 5])
    integers = torch.arange(12, dtype=torch.int8).view(3, 4)
    makers = (
        lambda d: torch.quantize_per_tensor(x.to(d), 0.1, 2, torch.qint8),
        lambda d: torch.quantize_per_tensor(x.to(d), torch.tensor(0.1).to(d), torch.tensor(2).to(d), torch.qint8),
        lambda d: torch.quantize_per_tensor([x.to(d)], scales[:1].to(d), zeros[:1].to(d), torch.qint8)[0],
        lambda d: torch.quantize_per_tensor_dynamic(x.to(d), torch.qint8, False),
        lambda d: torch.quantize_per_channel(x.to(d), scales.to(d), zeros.to(d), 1, torch.qint8),
        lambda d: torch._make_per_tensor_quantized_tensor(integers.to(d), 0.5, 1),
        lambda d: torch._make_per_channel_quantized_tensor(integers.to(d), scales.to(d), zeros.to(d), 1),
        lambda d: torch._empty_affine_quantized((2, 3), scale=3.0, zero_point=2, dtype=torch.qint8, device=d).fill_(6),
    )
    with torch.atalla.device(current):
        for make in makers:
            cpu, mine = make(torch.device("cpu")), make(device)
            views = [lambda t: t.t(), lambda t: t[1:]] if mine.qscheme() == torch.per_tensor_affine else []
            for f in (lambda t: t, torch.clone, torch.dequantize, *views):
                result = f(mine)
                assert result.device == device
                same(result, f(cpu))
            assert torch.empty_like(mine).device == device
        assert torch.atalla.current_device() == current


def test_dynamic() -> None:
    both(lambda t: torch.quantize_per_tensor_dynamic(t, torch.qint8, False), torch.randn(50))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_views_and_copies(dtype: torch.dtype) -> None:
    q = quantized(2, 3, 4, dtype=dtype)
    for f in (
        lambda t: t, torch.clone, lambda t: t.transpose(0, 2), lambda t: t.transpose(0, 2).contiguous(),
        lambda t: t.view(6, 4), lambda t: t.reshape(-1), lambda t: t.flatten(1), lambda t: t[1], lambda t: t[:, 1:],
        lambda t: t.select(1, 2), lambda t: t.unsqueeze(1), lambda t: t.unsqueeze(0).squeeze(0),
        lambda t: t.permute(2, 0, 1),
        lambda t: t.expand(2, 3, 4), lambda t: t.flip(0, 2), lambda t: t.unfold(2, 2, 1),
        lambda t: t.clone().fill_(0.4),
        lambda t: torch.empty_like(t).copy_(t), lambda t: torch.cat([t, t], 1), lambda t: t.clone().relu_(),
        lambda t: t.relu(), lambda t: t.as_strided((2, 2), (4, 1)), lambda t: t.int_repr(), lambda t: t.detach(),
    ):  # fmt: skip
        both(f, q)
    both(lambda t, i: t.index_select(2, i), q, torch.tensor([3, 0]))
    both(lambda t, i: t[i], q, torch.tensor([1, 0, 1]))
    both(lambda t, m: t.clone().masked_fill_(m, 0.2), q, torch.rand(2, 3, 4) < 0.5)
    both(lambda t, i: torch.nn.functional.embedding(i, t), q.reshape(6, 4), torch.tensor([[5, 0], [1, 1]]))
    assert torch.equal(q.to("atalla"), q.to("atalla").clone())
    assert not torch.equal(q.to("atalla"), q.to("atalla").clone().fill_(1.0))


def test_writes() -> None:
    q = quantized(4, 5)
    both(lambda t, v: t.clone().index_put_((torch.tensor([1, 3]).to(t.device),), v), q, torch.randn(2, 5))

    def write(t: torch.Tensor) -> torch.Tensor:
        t = t.clone()
        t[1] = quantized_row.to(t.device)
        return t

    quantized_row = quantized(5)
    both(write, q)


def test_cat_of_scales() -> None:
    a, b = quantized(2, 3), torch.quantize_per_tensor(torch.randn(2, 3), 0.2, 0, torch.qint8)
    both(lambda x, y: torch.cat([x, y]), a, b)


def test_saving() -> None:
    q = quantized(3, 4)
    file = io.BytesIO()
    torch.save(q.to("atalla"), file)
    file.seek(0)
    same(torch.load(file), q)
    same(copy.deepcopy(q.to("atalla")), q)
    assert "atalla" in repr(q.to("atalla"))


def test_errors() -> None:
    x = torch.randn(3, device="atalla")
    with pytest.raises(RuntimeError, match="Float"):
        torch.quantize_per_tensor(x.double(), 0.1, 0, torch.qint8)
    with pytest.raises(NotImplementedError, match="QUInt4x2"):
        torch.quantize_per_tensor(x, 0.1, 0, torch.quint4x2)
    with pytest.raises(NotImplementedError, match=r"quantized tensor.*atalla device.*dequantize\(\)"):
        torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).sin()
