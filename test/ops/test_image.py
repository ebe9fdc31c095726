# SPDX-License-Identifier: BSD-3-Clause
"""Pooling, resampling, padding and shuffling: layouts, positions of samples, gradients and errors, as on the CPU."""

from __future__ import annotations

import functools
import random

import pytest
import torch
import torch.nn.functional as F

import torch_atalla

aten = torch.ops.aten
LAYOUTS = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3),
    "unbatched": lambda x: x[0],
}


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


def image(dtype=torch.float32, shape=(2, 5, 11, 13)):
    torch.manual_seed(0)
    return torch.randint(0, 255, shape).to(dtype) if not dtype.is_floating_point else torch.randn(shape).to(dtype)


def agree(f, *tensors, **kwargs):
    """f on both devices: values, dtype and strides."""
    expected, actual = f(*tensors, **kwargs), f(*(t.to("atalla") for t in tensors), **kwargs)
    if not isinstance(expected, tuple):
        expected, actual = (expected,), (actual,)
    for e, a in zip(expected, actual):
        assert a.stride() == e.stride()
        wide = {"rtol": 1e-2, "atol": 1e-2} if e.dtype in (torch.float16, torch.bfloat16) else {}
        torch.testing.assert_close(a.cpu(), e, equal_nan=True, **wide)


def agree_on_gradient(f, x):
    """The gradient of f at x."""
    results = []
    for device in ("cpu", "atalla"):
        leaf = x.to(device).detach().requires_grad_()
        y = f(leaf)
        weights = torch.arange(y.numel(), dtype=torch.float64).remainder(7).reshape(y.shape).to(y.dtype)
        y.backward(weights.to(device))
        results.append(leaf.grad.cpu())
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_pool_layouts(layout, dtype):
    x = LAYOUTS[layout](image(dtype))
    agree(lambda t: aten.max_pool2d_with_indices(t, [3, 2], [2, 1], [1, 0], [1, 2], True), x)
    agree(lambda t: F.avg_pool2d(t, (3, 2), (2, 1), (1, 0), True, False), x)
    agree(lambda t: F.avg_pool2d(t, 3, 2, 1, divisor_override=5), x)
    if dtype.is_floating_point:
        agree(lambda t: F.adaptive_avg_pool2d(t, (4, 20)), x)
        agree(lambda t: aten.adaptive_max_pool2d(t, [4, 20]), x)


@pytest.mark.parametrize("batch", [True, False])
def test_max_pool3d_keeps_channels_last(batch):
    x = torch.randn(2, 6, 9, 8, 7).contiguous(memory_format=torch.channels_last_3d)
    agree(lambda t: aten.max_pool3d_with_indices(t, [3, 2, 2], [2, 1, 2]), x if batch else x[1])


def test_max_pool_special_values():
    x = image()
    x[0, 0, 3, 4] = x[0, 0, 4, 5] = float("nan")
    x[1] = float("-inf")
    for t in (x, x.to(memory_format=torch.channels_last)):
        agree(lambda v: aten.max_pool2d_with_indices(v, [3, 3], [1, 1], [1, 1]), t)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8], ids=str)
def test_resample(layout, mode, dtype):
    x = LAYOUTS[layout](image(dtype))
    if x.dim() == 3:
        x = x[None]
    sizes = [{"size": (22, 26)}, {"size": (7, 100)}, {"scale_factor": (2.3, 0.6)}, {"scale_factor": 1.7}]
    for kwargs in sizes:
        agree(F.interpolate, x, mode=mode, **kwargs)
        if mode in ("bilinear", "bicubic"):
            agree(F.interpolate, x, mode=mode, align_corners=True, **kwargs)
            if dtype != torch.bfloat16:
                agree(F.interpolate, x, mode=mode, antialias=True, **kwargs)


@pytest.mark.parametrize("mode", ["linear", "bilinear", "trilinear", "bicubic", "antialias"])
def test_weights_of_0(mode):
    """An infinity is NaN where the CPU's weight of it is 0: positions and weights are rounded as there. Sizes change,
    since the CPU gives NaN of each infinity where they do not."""
    torch.manual_seed(0)
    rng = random.Random(0)
    dims = {"linear": 1, "trilinear": 3}.get(mode, 2)
    options = {"mode": "bicubic", "antialias": True} if mode == "antialias" else {"mode": mode}
    for _ in range(60):
        sizes = [rng.randint(2, 12) for _ in range(dims)]
        target = [rng.choice([n for n in range(2, 13) if n != size]) for size in sizes]
        x = torch.randn(1, 2, *sizes)
        x[torch.rand(x.shape) < 0.08] = float("inf")
        expected, actual = (F.interpolate(t, target, **options).cpu() for t in (x, x.to("atalla")))
        torch.testing.assert_close(actual, expected, equal_nan=True, msg=f"{sizes} to {target}")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pad(mode, layout):
    pads = (2, 1, 3, 1) if mode == "circular" else (2, 1, 3, -1)
    for dtype in (torch.float32, torch.int16, torch.complex64):
        agree(lambda t: F.pad(t, pads, mode=mode), LAYOUTS[layout](image(torch.int16).to(dtype)))


def test_shuffles():
    for layout in LAYOUTS.values():
        x = layout(image(torch.float16, (2, 6, 4, 5)))
        agree(lambda t: t.flip(0, 2), x)
        agree(lambda t: torch.roll(t, (3, -1, 7), (0, 2, 0)), x)
        agree(lambda t: torch.roll(t, 5), x)
    x = image(shape=(2, 6, 4, 5))
    agree(lambda t: torch.channel_shuffle(t, 3), x.to(memory_format=torch.channels_last))
    agree(lambda t: F.unfold(t, (2, 3), 1, 2, 2), x)
    agree(lambda t: F.fold(F.unfold(t, (2, 3), 1, 2, 2), (4, 5), (2, 3), 1, 2, 2), x)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding):
    for align in (False, True):
        grid = torch.rand(2, 6, 70, 2) * 3 - 1.5
        grid[0, 0, 0, 0] = float("nan")
        kwargs = {"mode": mode, "padding_mode": padding, "align_corners": align}
        agree(F.grid_sample, image(), grid, **kwargs)
        agree(F.grid_sample, image().to(memory_format=torch.channels_last), grid, **kwargs)
        if mode != "bicubic":
            agree(F.grid_sample, image(shape=(2, 3, 4, 5, 6)), torch.rand(2, 3, 4, 5, 3) * 3 - 1.5, **kwargs)


GRID = torch.rand(2, 5, 6, 2, generator=torch.Generator().manual_seed(0)) * 3 - 1.5
GRADIENTS = {
    "max": lambda t: F.max_pool2d(t, 3, 2, 1),
    "average": lambda t: F.avg_pool2d(t, 3, 2, 1, True, False),
    "adaptive_average": lambda t: F.adaptive_avg_pool2d(t, (4, 5)),
    "adaptive_max": lambda t: F.adaptive_max_pool2d(t, (4, 5)),
    "nearest": lambda t: F.interpolate(t, size=(7, 30)),
    "nearest_exact": lambda t: F.interpolate(t, size=(7, 30), mode="nearest-exact"),
    "bilinear": lambda t: F.interpolate(t, size=(7, 30), mode="bilinear"),
    "bilinear_antialias": lambda t: F.interpolate(t, size=(7, 30), mode="bilinear", antialias=True),
    "bicubic": lambda t: F.interpolate(t, size=(7, 30), mode="bicubic", align_corners=True),
    "reflect": lambda t: F.pad(t, (2, 1, 3, 4), mode="reflect"),
    "replicate": lambda t: F.pad(t, (2, 1, 3, -2), mode="replicate"),
    "windows": lambda t: t.unfold(2, 4, 3).unfold(0, 2, 1),
    "grid_bilinear": lambda t: F.grid_sample(t, GRID.to(t.device), padding_mode="reflection", align_corners=False),
    "grid_bicubic": lambda t: F.grid_sample(t, GRID.to(t.device), mode="bicubic", align_corners=True),
    "unfold": lambda t: F.unfold(t, 3, 2, 1, 2),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    for layout in (LAYOUTS["contiguous"], LAYOUTS["channels_last"]):
        agree_on_gradient(GRADIENTS[name], layout(image()))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_gradient(mode, padding):
    for align in (False, True):

        def sample(g, x, mode=mode, align=align):
            return F.grid_sample(x.to(g.device), g, mode, padding, align)

        agree_on_gradient(functools.partial(sample, x=image(torch.float64)), GRID.double())
        if mode != "bicubic":
            grid = torch.cat([GRID, GRID[..., :1]], -1)[:, None]
            agree_on_gradient(functools.partial(sample, x=image(torch.float64, (2, 3, 4, 5, 6))), grid.double())


def test_errors():
    x, i = torch.zeros(1, 2, 2, 2, device="atalla"), torch.full((1, 2, 2, 2), 16, device="atalla")
    with pytest.raises(IndexError, match="index 16 at position"):
        F.max_unpool2d(x, i, 2).cpu()
    with pytest.raises(RuntimeError, match="Padding size should be less than the corresponding input dimension"):
        F.pad(x, (2, 0, 0, 0), mode="reflect")
    with pytest.raises(RuntimeError, match="stride should not be zero"):
        aten.max_pool3d_with_indices(x, [2, 2, 2], [0, 1, 1])
    with pytest.raises(RuntimeError, match="shifts and dimensions must align"):
        torch.roll(x, (1, 2), (0,))
