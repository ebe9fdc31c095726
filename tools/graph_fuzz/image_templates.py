# SPDX-License-Identifier: BSD-3-Clause
"""Statements for convolutions, pooling, padding and resampling."""

from __future__ import annotations

import torch

from .generator import Builder, template
from .statements import Statements
from .texts import PLAIN, each, shared, texts, written


def _contiguous_float16(x: str, dims: int, groups: int, dtype: torch.dtype) -> str:
    """Whether the CPU keeps channels last in float16, for volumes or by groups, depends on the processor."""
    special = dtype == torch.float16 and (dims == 3 or groups > 1)
    return f"{x}.clone(memory_format=torch.contiguous_format)" if special else x


@template("conv1d", "conv2d", "conv2d act", "conv2d bn", "conv3d", weight=1.2)
def convolution(g: Builder) -> str:
    dims = 1 if "1d" in g.name else 3 if "3d" in g.name else 2
    x = g.operand("floats", rank=dims + 2)
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
    x = g.operand("floats", rank=dims + 2)
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
    *each("F.{op}({x}, {size})", "max_pool1d", "max_pool2d", "avg_pool2d"),
    *each("F.{op}({x}, {size}, {stride}, {padding})", "max_pool1d", "avg_pool1d"),
    *each("F.adaptive_{op}({x}, {out})", "avg_pool1d", "max_pool1d", "avg_pool2d", "max_pool2d"),
    "F.avg_pool1d({x}, {size}, {stride})",
    "F.max_pool2d({x}, {size}, {stride}, {padding}, {dilation}, ceil_mode={whole})",
    "F.max_pool2d({x}, {size}, {stride}, return_indices=True)",
    "F.avg_pool2d({x}, {size}, {stride}, {padding}, ceil_mode={whole}, count_include_pad={count})",
    "F.avg_pool2d({x}, {size}, {stride}, divisor_override=3)",
    "F.adaptive_avg_pool2d({x}, ({out}, 1))",
    "F.lp_pool2d({x}, 2, {size})",
)
VOLUME_POOLS = (
    *each("F.{op}({x}, {size}, {stride})", "max_pool3d", "avg_pool3d"),
    *each("F.{op}({x}, {out})", "adaptive_avg_pool3d", "adaptive_max_pool3d"),
)


@shared(*VOLUME_POOLS, weight=0.35, tables=PLAIN)
@shared(*POOLS, weight=0.35)
def pooling(g: Statements) -> str:
    dims = int(g.name.split("(")[0][-2])
    size = g.rng.choice([1, 2, 3])
    values = {"size": size, "stride": g.rng.choice([1, 2, 3]), "padding": g.rng.randint(0, size // 2)}
    values |= {"dilation": g.rng.choice([1, 1, 2]), "out": g.rng.choice([1, 2, 3])}
    values |= {"whole": g.chance(0.3), "count": g.chance(0.5)}
    return written(g, g.operand("floats", rank=dims + (1 if dims == 2 and g.chance(0.3) else 2)), **values)


IMAGES = (
    *each("F.interpolate({x}, ({h}, {w}), mode='{op}')", "bilinear", "bicubic", "nearest-exact", "area"),
    *each("F.interpolate({x}, ({h}, {w}), mode='{op}', antialias=True)", "bilinear", "bicubic"),
    "F.interpolate({x}, ({h}, {w}), mode='bilinear', align_corners=True)",
    *each("F.interpolate({x}, scale_factor=2, mode='{op}')", "nearest", "bilinear"),
    "F.interpolate({x}, scale_factor=1.5)",
    "F.interpolate({x}, size=({s}, {n}), mode='nearest')",
    *each("F.pad({x}, (1, 1, 1, 0), mode='{op}')", "reflect", "replicate"),
    "F.pad({x}, (1, 0, 0, 1), mode='circular')",
    "F.pixel_shuffle({x}.repeat(1, 4, 1, 1), 2)",
    *each("F.pixel_unshuffle({x}{op}, 2)", "", ".repeat(1, 1, 2, 2)"),
    *each("F.unfold({x}, {op})", "(2, 1), padding=1", "(2, 2), stride=2"),
    "F.fold(F.unfold({x}, 2, padding=1), ({x}.shape[-2], {x}.shape[-1]), 2, padding=1)",
    "F.local_response_norm({x}, 2)",
    "F.channel_shuffle({x}.repeat(1, 2, 1, 1), 2)",
)


@shared(*IMAGES, weight=0.3)
def image(g: Statements) -> str | None:
    x = g.operand("floats", rank=4)
    if not g.value(x).numel() and "unshuffle" in g.name:  # upstream's shape is wrong: that of the input
        return None
    # The CPU antialiases only these dtypes as they are. With one column, upstream's rows are all the first one.
    antialias = "antialias" in g.name
    wide = f"{x}.float()" if antialias and g.value(x).dtype in (torch.float16, torch.bfloat16) else x
    return written(g, x, x=wide, h=g.rng.choice([1, 2, 5]), w=g.rng.choice([3, 5] if antialias else [1, 3, 5]))


texts(
    *each("F.interpolate({x}, {op})", "5, mode='linear'", "3", "size=({s},)"),
    "F.interpolate({x}, scale_factor=2)",
    *each("F.interpolate({x}, scale_factor=2, mode='{op}')", "linear", "nearest-exact"),
    *each("F.pad({x}, {op})", "(1, 2), mode='reflect'", "(2, 1), mode='replicate'", "(1, 1), mode='circular'"),
    *each("F.conv1d({x}, {y}{op})", "[:, :, :2]", "[:2], padding=1, stride=2"),
    *each("F.conv1d({x}.reshape(-1, 1, {x}.shape[-1]), {w1}, {op})", "stride=2", "padding=2, dilation=2"),
    "F.conv_transpose1d({x}.reshape(-1, 1, {x}.shape[-1]), {w1}.transpose(0, 1), stride=2)",
    *each("F.conv2d({x}[:, None], {w2}, padding=1{op})", "", ", stride=2"),
    "F.pixel_shuffle({x}.repeat_interleave(4, 0), 2)",
    weight=0.2,
    rank=3,
)
texts(
    "F.grid_sample({x}, {grid}, align_corners=False)",
    "F.grid_sample({x}, {grid}, mode='nearest', padding_mode='border', align_corners=True)",
    "F.grid_sample({x}, {grid}, mode='bicubic', padding_mode='reflection', align_corners=False)",
    "F.affine_grid({theta}, ({x}.shape[0], 1, 3, 2), align_corners=False)",
    weight=0.3,
    rank=4,
    tables=PLAIN,
)
texts(
    "F.interpolate({x}, (2, 3, 2), mode='trilinear')",
    "F.interpolate({x}, (2, 3, 2))",
    "F.interpolate({x}, (2, 1, 2), mode='nearest-exact')",
    "F.pad({x}, (1, 0, 0, 1, 1, 1), mode='replicate')",
    "F.grid_sample({x}, {volume_grid}, align_corners=False)",
    weight=0.12,
    rank=5,
    tables=PLAIN,
)
