# SPDX-License-Identifier: BSD-3-Clause
"""Convolution and pooling on images whose channels are innermost."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import torch

from ....export.ir import Buffer, BufferKind, Launch, Operand
from ..image import Address
from ..kernels import gemm, plane, window
from ..kernels.common import LANES, tiles
from ..kernels.pointwise import Unsupported
from . import data, pointwise
from .matrix import bias_address, pack_weights

if TYPE_CHECKING:
    from ..network import Selection


def new_operand(s: Selection, sizes: tuple[int, ...], strides: tuple[int, ...], elements: int) -> Operand:
    buffer = Buffer(len(s.program.buffers), BufferKind.TEMPORARY, "", elements * 2)
    s.program.buffers.append(buffer)
    return Operand(buffer.index, 0, sizes, strides, torch.bfloat16)


def channels_last(x: Operand) -> bool:
    """[n, c, h, w] with channels innermost and lines dense."""
    n, c, h, w = x.sizes
    return (c == 1 or x.strides[1] == 1) and (w == 1 or x.strides[3] == c) and (h == 1 or x.strides[2] == w * c)


def padded(
    s: Selection, x: Operand, before: tuple[int, int], size: tuple[int, int], value: float, channels: int
) -> Operand:
    """A copy [n, channels, *size] with channels innermost, `value` around and behind the image."""
    n, c, h, w = x.sizes
    hp, wp = size
    line = wp * channels
    out = new_operand(s, (n, channels, hp, wp), (hp * line, 1, line, channels), n * hp * line + 2 * LANES * LANES)
    taken_h, taken_w = min(h, hp - before[0]), min(w, wp - before[1])
    strips = []
    if channels == c:  # the border alone: above, below with what tiles may reach behind the image, left and right
        last = (before[0] + taken_h) * line
        strips.append(Operand(out.buffer, 0, (before[0] * line,), (1,), torch.bfloat16))
        for image in range(n):
            first = image * hp * line
            if image:
                strips.append(Operand(out.buffer, 2 * first, (before[0] * line,), (1,), torch.bfloat16))
            behind = LANES if image == n - 1 else 0
            strips.append(Operand(out.buffer, 2 * (first + last), (hp * line - last + behind,), (1,), torch.bfloat16))
        sides = ((0, before[1]), (before[1] + taken_w, wp - before[1] - taken_w))
        for start, width in sides:
            offset = 2 * (before[0] * line + start * channels)
            steps = (hp * line, line, 1)
            strips.append(Operand(out.buffer, offset, (n, taken_h, width * channels), steps, torch.bfloat16))
    else:
        strips.append(Operand(out.buffer, 0, (n * hp * line + LANES,), (1,), torch.bfloat16))
    for strip in strips:
        pointwise.emit(s, strip, [], (("const", value),))
    inner = Operand(
        out.buffer, 2 * (before[0] * line + before[1] * channels), (n, c, taken_h, taken_w), out.strides, torch.bfloat16
    )
    source = Operand(x.buffer, x.offset, (n, c, taken_h, taken_w), x.strides, x.dtype)
    data.emit_copy(s, inner, source)
    return out


def four(x: Operand) -> Operand:
    """[n, c, w] or [n, c, 1, h, w] as [n, c, h, w]."""
    if len(x.sizes) == 3:
        return Operand(x.buffer, x.offset, (*x.sizes[:2], 1, x.sizes[2]), (*x.strides[:2], 0, x.strides[2]), x.dtype)
    if len(x.sizes) == 5 and x.sizes[2] == 1:
        return Operand(x.buffer, x.offset, (*x.sizes[:2], *x.sizes[3:]), (*x.strides[:2], *x.strides[3:]), x.dtype)
    if len(x.sizes) != 4:
        raise Unsupported(f"{len(x.sizes) - 2} spatial dimensions")
    return x


def convolution(s: Selection, launch: Launch) -> None:
    (out,) = launch.outputs
    x, weight, bias = (*launch.inputs, None)[:3]
    assert out is not None and isinstance(x, Operand) and isinstance(weight, Operand)
    groups, *rest = launch.iparams
    dims = len(out.sizes) - 2
    stride, padding, dilation = ([*rest[3 * i : 3 * i + dims]] for i in range(3))
    if dims == 1:
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
    x, target, weight = four(x), four(out), four(weight)
    if any(o.dtype is not torch.bfloat16 for o in (x, target, weight)):
        raise Unsupported("dtypes; expected bfloat16")
    if not s.is_constant(weight):
        raise Unsupported("weights that are not constant")
    if min(padding) < 0:
        raise Unsupported("negative padding")
    n, c, h, w = x.sizes
    _, o, oh, ow = target.sizes
    _, _, kh, kw = weight.sizes
    activation = getattr(launch, "activation", None)
    result = target
    if not channels_last(target):
        result = new_operand(s, target.sizes, (o * oh * ow, 1, ow * o, o), n * o * oh * ow)
    # What the windows reach, and whether the image can be read where it is.
    need_h, need_w = (
        (oh - 1) * stride[0] + (kh - 1) * dilation[0] + 1,
        (ow - 1) * stride[1] + (kw - 1) * dilation[1] + 1,
    )
    merged = dilation[1] == 1 and groups == 1
    run = kw * c if merged else c // groups
    depthwise = groups == c and groups > 1 and o % groups == 0
    simple = max(padding) == 0 and channels_last(x) and need_h <= h and need_w <= w
    if depthwise:
        channels = c
        if not channels_last(x):
            x = padded(s, x, (0, 0), (h, w), 0.0, c)
    elif not (simple and run % LANES == 0 and stride[1] * c > 1):
        channels = c if stride[1] * c > 1 else 2
        if merged:
            run = kw * channels
        x = padded(
            s, x, (padding[0], padding[1]), (max(need_h, padding[0] + 1), max(need_w, padding[1] + 1)), 0.0, channels
        )
    else:
        channels = c
    values = s.tensor(weight)
    if depthwise:
        if o != c:
            raise Unsupported(f"{o} results of {c} groups")
        spread = Address(s.constant(values.reshape(c, kh * kw).t().contiguous()))
        offset = bias_address(s, bias, o) if isinstance(bias, Operand) else None
        emit_planes(s, "dot", x, result, ((kh, kw), stride, padding, dilation), spread, offset, activation)
    else:
        per = o // groups
        for group in range(groups):
            part = values[group * per : (group + 1) * per].permute(0, 2, 3, 1)  # [o, kh, kw, c]
            if merged:
                if channels != c:
                    part = torch.nn.functional.pad(part, (0, channels - c))
                part = part.reshape(per, kh, run)
            else:
                part = part.reshape(per, kh * kw, run)
            lanes = torch.nn.functional.pad(part, (0, tiles(run) * LANES - run)).reshape(1, per, -1)
            held = None
            if (c // groups) % LANES == 0 and channels == c:
                pixel = x.strides[3] if x.sizes[3] > 1 else c
                held = gemm.plan_image(
                    gemm.Image(
                        n,
                        oh,
                        ow,
                        per,
                        kh,
                        kw,
                        (stride[0], stride[1]),
                        (dilation[0], dilation[1]),
                        x.strides[2] // pixel if x.sizes[2] > 1 else x.sizes[3],
                        c // groups // LANES,
                        pixel,
                        x.strides[0],
                        result.strides[3] if ow > 1 else o,
                        result.strides[0],
                    ),
                    isinstance(bias, Operand),
                    activation,
                )
            if held is not None:
                product, numbers, deltas = held
            else:
                product, numbers = gemm.plan_pixels(
                    gemm.Pixels(
                        n,
                        oh,
                        ow,
                        per,
                        kh,
                        1 if merged else kw,
                        run,
                        dilation[0] * x.strides[2],
                        dilation[1] * channels,
                        stride[0] * x.strides[2],
                        stride[1] * channels,
                        x.strides[0],
                        result.strides[3] if ow > 1 else o,
                        result.strides[0],
                    ),
                    isinstance(bias, Operand),
                    activation,
                )
            addresses = {
                "a": s.address(x, group * (c // groups)),
                "c": s.address(result, group * per),
                "w": Address(s.constant(pack_weights(lanes))),
            }
            if held is not None:
                addresses["deltas"] = Address(s.constant(torch.tensor(deltas, dtype=torch.int32)))
            if isinstance(bias, Operand):
                if s.is_constant(bias):
                    one = Operand(bias.buffer, bias.offset + 2 * group * per, (per,), (1,), bias.dtype)
                    addresses["bias"] = bias_address(s, one, per)
                else:
                    addresses["bias"] = s.address(bias, group * per)
            s.call(gemm.build, product, {**numbers, **addresses})
    if result is not target:
        data.emit_copy(s, target, result)


def _pooled(x: Operand, out: Operand) -> tuple[Operand, Operand]:
    x, out = four(x), four(out)
    if x.sizes[1] > 1 and (x.strides[1] != 1 or out.strides[1] != 1):
        raise Unsupported("pooling of an image whose channels are not innermost")
    return x, out


def max_pool(s: Selection, launch: Launch) -> None:
    out, indices = (*launch.outputs, None)[:2]
    (x,) = launch.inputs[:1]
    assert out is not None and isinstance(x, Operand)
    if indices is not None and (
        indices.buffer in {p.operand.buffer for p in s.program.outputs} or s.is_read(indices.buffer)
    ):
        raise Unsupported("the indices of the maxima")
    _pool(s, launch, x, out, "max", None)


def average_pool(s: Selection, launch: Launch) -> None:
    (out,) = launch.outputs
    (x,) = launch.inputs[:1]
    assert out is not None and isinstance(x, Operand)
    kernel, padding = launch.iparams[0:3], launch.iparams[6:9]
    counts, divisor = (*launch.iparams[9:11], 1, 0)[:2]
    if any(padding) and not counts:
        raise Unsupported("an average that leaves out the padding")
    size = four(x).sizes
    stride = launch.iparams[3:6]
    need = [(o - 1) * st + k for o, st, k in zip(four(out).sizes[2:], _two(stride, out), _two(kernel, out))]
    if any(n > h + 2 * p for n, h, p in zip(need, size[2:], _two(padding, out))) and not divisor:
        raise Unsupported("an average over windows that the image does not fill")
    _pool(s, launch, x, out, "sum", 1.0 / (divisor or prod(_two(kernel, out))))


def _two(values: tuple[int, ...], out: Operand) -> list[int]:
    """Height and width of three spatial parameters; images have d = 1 in front or nothing behind."""
    if len(out.sizes) == 5:
        return list(values[1:3])
    return list(values[:2]) if len(out.sizes) == 4 else [1, values[0]]


def _pool(s: Selection, launch: Launch, x: Operand, out: Operand, kind: str, scale: float | None) -> None:
    p = launch.iparams
    kernel, stride, padding = (_two(p[i : i + 3], out) for i in (0, 3, 6))
    dilation = _two(p[9:12], out) if kind == "max" and len(p) >= 12 else [1, 1]
    x, out = _pooled(x, out)
    emit_planes(s, kind, x, out, (kernel, stride, padding, dilation), scale=scale or 1.0)


def emit_planes(
    s: Selection,
    kind: str,
    x: Operand,
    out: Operand,
    shape: Sequence[Sequence[int]],
    weight: Address | None = None,
    bias: Address | None = None,
    activation: str | None = None,
    scale: float = 1.0,
) -> None:
    """Windows over images with channels innermost. shape: kernel, stride, padding and dilation, (down, right) each."""

    def distances(o: Operand) -> tuple[int, int, int]:
        return o.strides[0], o.strides[2], o.strides[3] if o.sizes[3] > 1 else o.sizes[1]

    kernel, stride, padding, dilation = ((int(a), int(b)) for a, b in shape)
    planes = plane.Planes(
        x.sizes[0], x.sizes[1], x.sizes[2:], out.sizes[2:], kernel, stride, padding, dilation, distances(x),
        distances(out),
    )  # fmt: skip
    for variant, words, starts in plane.plan(kind, planes, scale, bias is not None, activation):
        places = {"o": s.address(out, starts["o"]), "x": s.address(x, starts["x"])}
        for name, address in (("w", weight), ("bias", bias)):
            if address is not None:
                places[name] = Address(address.region, address.offset + 2 * starts[name])
        s.call(plane.build, variant, {**words, **places})


def emit_windows(
    s: Selection, kind: str, windows: window.Windows, out: Operand, x: Operand, scale: float = 1.0
) -> None:
    for variant, words, starts in window.plan(kind, windows, scale):
        s.call(window.build, variant, {**words, "o": s.address(out, starts["o"]), "x": s.address(x, starts["x"])})


def adaptive_average(s: Selection, launch: Launch) -> None:
    (out,) = launch.outputs
    (x,) = launch.inputs[:1]
    assert out is not None and isinstance(x, Operand)
    x, out = _pooled(x, out)
    h, w = x.sizes[2:]
    oh, ow = out.sizes[2:]
    if (h, w) == (oh, ow):
        data.emit_copy(s, out, x)
        return
    if h % oh or w % ow:
        raise Unsupported(f"adaptive pooling of {h} x {w} to {oh} x {ow}")
    kh, kw = h // oh, w // ow
    emit_planes(s, "sum", x, out, ((kh, kw), (kh, kw), (0, 0), (1, 1)), scale=1.0 / (kh * kw))


SELECTORS = {
    "convolution": convolution,
    "pool.max": max_pool,
    "pool.average": average_pool,
    "pool.adaptive_average": adaptive_average,
}
