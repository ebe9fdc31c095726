# SPDX-License-Identifier: BSD-3-Clause
"""Ops on quantized tensors: the integers of their results are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves, tree_map

import torch_atalla

aten = torch.ops.aten
DTYPES = (torch.qint8, torch.quint8, torch.qint32)
BYTES = (torch.qint8, torch.quint8)


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with torch_atalla.fallback.mode("error"):
        yield


def quantized(*shape: int, dtype: torch.dtype = torch.quint8, scale: float = 0.05, zero: int = 7) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.quantize_per_tensor(torch.randn(*shape) * 3, scale, zero, dtype)


def same(found: Any, expected: Any, steps: int) -> None:
    for mine, cpu in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert (mine.device.type, mine.dtype, mine.shape) == ("atalla", cpu.dtype, cpu.shape)
        if cpu.is_quantized:
            assert (mine.q_scale(), mine.q_zero_point()) == (cpu.q_scale(), cpu.q_zero_point())
            mine, cpu = mine.int_repr().long(), cpu.int_repr().long()
        torch.testing.assert_close(mine.cpu(), cpu, rtol=0, atol=steps)


def both(f: Callable[..., Any], *arguments: Any, steps: int = 0) -> None:
    """`steps`: by how many integers a result may differ, where the value is near the middle of two."""
    expected = f(*arguments)
    same(f(*tree_map(lambda a: a.to("atalla") if isinstance(a, torch.Tensor) else a, arguments)), expected, steps)


POINTWISE: dict[str, Callable[[torch.Tensor], Any]] = {
    "clamp": lambda t: t.clamp(-1.2, 2.1),
    "clamp_max": lambda t: torch.clamp(t, max=0.4),
    "hardtanh": lambda t: F.hardtanh(t, -0.5, 0.7),
    "hardtanh_": lambda t: F.hardtanh(t.clone(), -0.5, 0.7, inplace=True),
    "threshold": lambda t: F.threshold(t, 0.3, 1.1),
    "prelu": lambda t: aten._prelu_kernel(t, torch.full((1, 1), 0.25, device=t.device)),
    "sort": lambda t: torch.sort(t, stable=True, dim=0, descending=True),
    "topk": lambda t: torch.topk(t, 3)[0],
    "max": lambda t: t.max(),
    "min": lambda t: t.min(),
    "eq": lambda t: t == 0.15,
    "ne": lambda t: t != t.flip(0),
    "lt": lambda t: t < t.flip(0),
    "le": lambda t: t <= t.flip(1),
    "gt": lambda t: t > 0.1,
    "ge": lambda t: torch.ge(t, 0.1, out=torch.empty(0, dtype=torch.bool, device=t.device)),
    "ge_tensor": lambda t: t >= t.flip(0),
    "dequantize": lambda t: torch.dequantize([t, t]),
    "cat_out": lambda t: torch.cat([t, t.flip(0)], out=torch.empty_like(torch.cat([t, t]))),
    "index_select_out": lambda t: torch.index_select(
        t, 1, torch.tensor([2, 0], device=t.device), out=torch.empty_like(t[:, :2])
    ),
}
# Functions computed in float32: an ulp of the float may move a value over the middle of two integers.
ROUNDED: dict[str, Callable[[torch.Tensor], Any]] = {
    "leaky_relu": lambda t: F.leaky_relu(t, 0.3),
    "leaky_relu_": lambda t: F.leaky_relu(t.clone(), 0.3, inplace=True),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardsigmoid": F.hardsigmoid,
    "gelu": F.gelu,
    "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
    "mean": lambda t: t.mean(1),
    "mean_keepdim": lambda t: t.mean((0, 1), keepdim=True),
    "std": lambda t: t.std(1),
    "std_correction": lambda t: torch.std(t, dim=(0,), correction=0, keepdim=True),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*POINTWISE, *ROUNDED])
def test_elements(name: str, dtype: torch.dtype) -> None:
    f = (POINTWISE | ROUNDED)[name]
    steps = (1 if dtype in BYTES else 2**12) if name in ROUNDED else 0
    for q in (quantized(6, 8, dtype=dtype), quantized(8, 6, dtype=dtype).t()):
        try:
            f(q)
        except (RuntimeError, NotImplementedError):
            continue  # the CPU has it for other dtypes
        both(f, q, steps=steps)


SPATIAL: dict[str, tuple[Callable[[torch.Tensor], Any], tuple[int, ...]]] = {
    "max_pool1d": (lambda t: torch.quantized_max_pool1d(t, 3, 2, 1), (2, 3, 11)),
    "max_pool2d": (lambda t: F.max_pool2d(t, 3, 2, 1), (2, 3, 9, 8)),
    "max_pool2d_dilated": (lambda t: torch.quantized_max_pool2d(t, 2, 1, 0, 2, True), (2, 3, 9, 8)),
    "max_pool3d": (lambda t: torch.quantized_max_pool3d(t, 2, 2, 0, 1), (1, 2, 5, 6, 4)),
    "nearest": (lambda t: F.interpolate(t, scale_factor=2.5, mode="nearest"), (1, 2, 5, 6)),
    "nearest_exact": (lambda t: F.interpolate(t, size=(7, 3), mode="nearest-exact"), (1, 2, 5, 6)),
    "nearest3d": (lambda t: F.interpolate(t, size=(2, 7, 3), mode="nearest"), (1, 2, 3, 5, 6)),
    "nearest_exact3d": (lambda t: F.interpolate(t, size=(2, 7, 3), mode="nearest-exact"), (1, 2, 3, 5, 6)),
    "reflection2d": (lambda t: F.pad(t, (1, 2, 0, 1), mode="reflect"), (1, 2, 5, 6)),
    "reflection1d_out": (
        lambda t: aten.reflection_pad1d.out(t, [1, 2], out=torch.empty_like(F.pad(t[..., None], (0, 0, 0, 3))[..., 0])),
        (2, 3, 5),
    ),
    "channel_shuffle": (lambda t: F.channel_shuffle(t, 2), (1, 4, 3, 3)),
    "avg_pool2d": (lambda t: F.avg_pool2d(t, 3, 2, 1), (2, 3, 9, 8)),
    "avg_pool2d_divisor": (lambda t: F.avg_pool2d(t, 2, divisor_override=3), (2, 3, 9, 8)),
    "avg_pool2d_without_padding": (lambda t: F.avg_pool2d(t, 3, 2, 1, count_include_pad=False), (2, 3, 9, 8)),
    "avg_pool3d": (lambda t: F.avg_pool3d(t, 2, 1), (1, 2, 4, 5, 6)),
    "adaptive_avg_pool2d": (lambda t: F.adaptive_avg_pool2d(t, (2, 3)), (2, 3, 9, 8)),
    "adaptive_avg_pool2d_one": (lambda t: F.adaptive_avg_pool2d(t, 1), (2, 3, 9, 8)),
    "adaptive_avg_pool3d": (lambda t: F.adaptive_avg_pool3d(t, (2, 3, 1)), (1, 2, 4, 5, 6)),
    "bilinear": (lambda t: F.interpolate(t, scale_factor=1.7, mode="bilinear"), (1, 2, 5, 6)),
    "bilinear_corners": (lambda t: F.interpolate(t, size=(9, 4), mode="bilinear", align_corners=True), (1, 2, 5, 6)),
}
MEANS = ("avg_pool", "adaptive", "bilinear")


@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("name", SPATIAL)
def test_images(name: str, dtype: torch.dtype) -> None:
    f, shape = SPATIAL[name]
    if name == "channel_shuffle" and dtype == torch.qint8:
        pytest.skip("the CPU has it for torch.quint8 only")
    q = quantized(*shape, dtype=dtype)
    both(f, q, steps=1 if name.startswith(MEANS) else 0)
    if q.dim() == 4:
        both(f, q.contiguous(memory_format=torch.channels_last), steps=1 if name.startswith(MEANS) else 0)


@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
def test_grid_sampler(padding_mode: str) -> None:
    q, grid = quantized(2, 3, 5, 6), torch.rand(2, 4, 4, 2) * 2.4 - 1.2
    both(lambda t, g: F.grid_sample(t, g, padding_mode=padding_mode, align_corners=False), q, grid, steps=1)


@pytest.mark.parametrize("dtype", BYTES, ids=str)
@pytest.mark.parametrize("shape", [(4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 4, 5)], ids=str)
def test_batch_norm(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    weight, bias, mean, var = torch.rand(3) + 0.5, torch.randn(3), torch.randn(3), torch.rand(3) + 0.2
    both(
        lambda t, *p: torch.quantized_batch_norm(t, *p, 1e-5, 0.1, 5),
        quantized(*shape, dtype=dtype), weight, bias, mean, var, steps=1,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_outputs(dtype: torch.dtype) -> None:
    """out= has the scale and zero point that the CPU gives it: its own, or those of the function."""
    q = quantized(4, 6, dtype=dtype)

    def out(t: torch.Tensor) -> torch.Tensor:
        return torch._empty_affine_quantized(t.shape, scale=0.2, zero_point=3, dtype=t.dtype, device=t.device)

    both(lambda t: aten.leaky_relu.out(t, 0.3, out=out(t)), q, steps=1)
    both(lambda t: aten.hardsigmoid.out(t, out=out(t)), q, steps=1)
    both(lambda t: torch.cat([t[:2], t[2:]], out=out(t)), q, steps=1)
    mine = q.to("atalla")
    for name in ("max", "min"):
        found = getattr(aten, name).unary_out(mine, out=out(mine))
        assert found.shape == () and found.dequantize().cpu() == getattr(q.dequantize(), name)()
    with pytest.raises(RuntimeError, match="expected out= to be quantized"):
        aten.leaky_relu.out(mine, 0.3, out=torch.empty(4, 6, device="atalla"))


def test_per_channel() -> None:
    """Comparisons and dequantization take tensors quantized per channel; functions of one scale refuse them."""
    x, scales, zeros = torch.randn(3, 4), torch.tensor([0.1, 0.02, 0.3, 1.0]), torch.tensor([0, 3, 1, 5])
    q = torch.quantize_per_channel(x, scales, zeros, 1, torch.qint8)
    both(lambda t: t == t, q)
    both(lambda t: t > 0.1, q)
    both(lambda t: torch.dequantize([t])[0], q)
    for f in (lambda t: t.clamp(0, 1), lambda t: t.topk(1), F.gelu):
        with pytest.raises(RuntimeError):
            f(q.to("atalla"))


def test_empty() -> None:
    q = quantized(0, 4)
    for f in (torch.sigmoid, lambda t: t.clamp(0, 1), lambda t: t == 1, lambda t: torch.sort(t, stable=True)):
        both(f, q)
