# SPDX-License-Identifier: BSD-3-Clause
"""Statements for convolutions, pooling, padding and resampling."""

from __future__ import annotations

import torch

from .generator import Builder, template


def _contiguous_float16(x: str, dims: int, groups: int, dtype: torch.dtype) -> str:
    """Whether the CPU keeps channels last in float16, for volumes or by groups, depends on the processor."""
    special = dtype == torch.float16 and (dims == 3 or groups > 1)
    return f"{x}.clone(memory_format=torch.contiguous_format)" if special else x


@template("conv1d", "conv2d", "conv2d act", "conv2d bn", "conv3d", weight=1.2)
def convolution(g: Builder) -> str:
    dims = 1 if "1d" in g.name else 3 if "3d" in g.name else 2
    x = g.floats(dims + 2)
    c, dtype = g.value(x).shape[1], g.value(x).dtype
    groups = g.rng.choice([1, 1, 1, *(k for k in range(1, c + 1) if c % k == 0)])
    x = _contiguous_float16(x, dims, groups, dtype)
    out = groups * g.rng.choice([1, 1, 2, 3, 8] if groups > 1 else [1, 2, 3, 8, 32])
    kernel = [g.rng.choice([1, 2, 3, 3]) for _ in range(dims)]
    scale = max(c // groups * torch.Size(kernel).numel(), 1) ** -0.5
    weight = g.parameter((out, c // groups, *kernel), dtype, scale)
    bias = g.parameter((out,), dtype) if g.chance(0.6) else "None"
    stride, padding, dilation = g.rng.choice([1, 1, 2]), g.rng.choice([0, 1, 1, 2]), g.rng.choice([1, 1, 1, 2])
    text = f"F.conv{dims}d({x}, {weight}, {bias}, {stride}, {padding}, {dilation}, {groups})"
    if g.name == "conv2d act":
        return f"{g.rng.choice(['F.relu', 'F.silu', 'F.hardswish', 'torch.sigmoid'])}({text})"
    if g.name == "conv2d bn":
        mean, variance = g.buffer((out,), dtype), g.buffer((out,), dtype)
        affine = ", ".join(g.parameter((out,), dtype) for _ in range(2))
        return f"F.batch_norm({text}, {mean}, {variance}.abs() + 0.5, {affine})"
    return text


@template("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", weight=0.4)
def transposed_convolution(g: Builder) -> str:
    dims = int(g.name[-2])
    x = g.floats(dims + 2)
    c, dtype = g.value(x).shape[1], g.value(x).dtype
    groups = g.rng.choice([1, 1, c])
    x = _contiguous_float16(x, dims, groups, dtype)
    weight = g.parameter((c, g.rng.choice([1, 2, 4]), *[g.rng.choice([1, 2, 3]) for _ in range(dims)]), dtype, 0.3)
    stride = g.rng.choice([1, 2])
    output_padding, dilation = g.rng.randint(0, stride - 1), g.rng.choice([1, 1, 2])
    if dtype.itemsize == 2:  # oneDNN ends the process for some dilated ones on CPUs with AMX
        dilation = 1
    extra = f"output_padding={output_padding}, groups={groups}, dilation={dilation}"
    return f"F.{g.name}({x}, {weight}, None, stride={stride}, padding={g.rng.choice([0, 1])}, {extra})"


POOLS = (
    "F.max_pool2d({x}, {k})",
    "F.max_pool2d({x}, {k}, {s}, {p}, {dil}, ceil_mode={b})",
    "F.max_pool2d({x}, {k}, {s}, return_indices=True)",
    "F.avg_pool2d({x}, {k})",
    "F.avg_pool2d({x}, {k}, {s}, {p}, ceil_mode={b}, count_include_pad={c})",
    "F.adaptive_avg_pool2d({x}, ({o}, 1))",
    "F.adaptive_avg_pool2d({x}, {o})",
    "F.adaptive_max_pool2d({x}, {o})",
    "F.lp_pool2d({x}, 2, {k})",
    "F.avg_pool2d({x}, {k}, {s}, divisor_override=3)",
    "F.max_pool1d({x}, {k})",
    "F.avg_pool1d({x}, {k}, {s})",
    "F.adaptive_avg_pool1d({x}, {o})",
    "F.adaptive_max_pool1d({x}, {o})",
    "F.max_pool3d({x}, {k}, {s})",
    "F.avg_pool3d({x}, {k}, {s})",
    "F.adaptive_avg_pool3d({x}, {o})",
    "F.adaptive_max_pool3d({x}, {o})",
)


@template(*POOLS, weight=0.35)
def pooling(g: Builder) -> str:
    dims = int(g.name.split("(")[0][-2])
    x = g.floats(dims + 2)
    k = g.rng.choice([1, 2, 3])
    values = {"k": k, "s": g.rng.choice([1, 2, 3]), "p": g.rng.randint(0, k // 2), "dil": g.rng.choice([1, 1, 2])}
    return g.name.format(x=x, o=g.rng.choice([1, 2, 3]), b=g.chance(0.3), c=g.chance(0.5), **values)


IMAGES = (
    "F.interpolate({x}, scale_factor=2, mode='nearest')",
    "F.interpolate({x}, scale_factor=1.5)",
    "F.interpolate({x}, ({h}, {w}), mode='bilinear', align_corners=True)",
    "F.interpolate({x}, ({h}, {w}), mode='bilinear')",
    "F.interpolate({x}, ({h}, {w}), mode='bilinear', antialias=True)",
    "F.interpolate({x}, ({h}, {w}), mode='bicubic')",
    "F.interpolate({x}, ({h}, {w}), mode='bicubic', antialias=True)",
    "F.interpolate({x}, ({h}, {w}), mode='nearest-exact')",
    "F.interpolate({x}, ({h}, {w}), mode='area')",
    "F.pad({x}, (1, 1, 1, 0), mode='reflect')",
    "F.pad({x}, (1, 1, 1, 0), mode='replicate')",
    "F.pad({x}, (1, 0, 0, 1), mode='circular')",
    "F.pixel_shuffle({x}.repeat(1, 4, 1, 1), 2)",
    "F.pixel_unshuffle({x}.repeat(1, 1, 2, 2), 2)",
    "F.unfold({x}, (2, 1), padding=1)",
    "F.fold(F.unfold({x}, 2, padding=1), ({x}.shape[-2], {x}.shape[-1]), 2, padding=1)",
    "F.grid_sample({x}, {grid}, align_corners=False)",
    "F.grid_sample({x}, {grid}, mode='nearest', padding_mode='border', align_corners=True)",
    "F.grid_sample({x}, {grid}, mode='bicubic', padding_mode='reflection', align_corners=False)",
    "F.local_response_norm({x}, 2)",
    "F.channel_shuffle({x}.repeat(1, 2, 1, 1), 2)",
    "F.affine_grid({theta}, ({n}, 1, 3, 2), align_corners=False)",
)


def _grid(g: Builder, shape: tuple[int, ...], dtype: torch.dtype) -> str:
    """Finite positions: of an infinite one upstream's gradient is NaN or reads other memory."""
    return g.new_input(shape, dtype, f"torch.randn({shape}).to({dtype})")


@template(*IMAGES, weight=0.3)
def image(g: Builder) -> str | None:
    x = g.floats(4)
    n, dtype = g.value(x).shape[0], g.value(x).dtype
    if not g.value(x).numel() and "unshuffle" in g.name:  # upstream's shape is wrong: that of the input
        return None
    if "antialias" in g.name and dtype in (torch.float16, torch.bfloat16):  # the CPU takes them only as they are
        x = f"{x}.float()"
    # With antialias and one column, upstream's rows are all the first one.
    width = g.rng.choice([3, 5] if "antialias" in g.name else [1, 3, 5])
    grid = _grid(g, (n, 3, 2, 2), dtype) if "{grid}" in g.name else ""
    theta = g.new_input((n, 2, 3), dtype) if "{theta}" in g.name else ""
    return g.name.format(x=x, h=g.rng.choice([1, 2, 5]), w=width, grid=grid, theta=theta, n=n)


OTHER_RANKS = (
    "F.interpolate({x}, 5, mode='linear')",
    "F.interpolate({x}, 3)",
    "F.interpolate({x}, scale_factor=2, mode='nearest-exact')",
    "F.pad({x}, (1, 2), mode='reflect')",
    "F.pad({x}, (2, 1), mode='replicate')",
)
VOLUMES = (
    "F.interpolate({x}, (2, 3, 2), mode='trilinear')",
    "F.interpolate({x}, (2, 3, 2))",
    "F.interpolate({x}, (2, 1, 2), mode='nearest-exact')",
    "F.pad({x}, (1, 0, 0, 1, 1, 1), mode='replicate')",
    "F.grid_sample({x}, {grid}, align_corners=False)  # 3d",
)


@template(*OTHER_RANKS, weight=0.15)
def signal(g: Builder) -> str:
    return g.name.format(x=g.floats(3))


@template(*VOLUMES, weight=0.12)
def volume(g: Builder) -> str:
    x = g.floats(5)
    grid = _grid(g, (g.value(x).shape[0], 2, 1, 3, 3), g.value(x).dtype) if "{grid}" in g.name else ""
    return g.name.removesuffix("  # 3d").format(x=x, grid=grid)
