# SPDX-License-Identifier: BSD-3-Clause
"""Pooling on images whose channels are innermost, and what convolutions share with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod

from torch_atalla.isa.geometry import LANES

from ....program.ir import Launch, Operand
from ..image import Address
from ..kernels import plane
from ..kernels.image import Image
from ..kernels.pointwise import Unsupported
from ..selection import Selection, operands_of, selects
from . import data, pointwise
from .moves import behind, part


def dense_pixels(x: Operand) -> bool:
    """[n, c, h, w] with channels innermost and no gap between the pixels of a line."""
    _, c, _, w = x.sizes
    return (c == 1 or x.strides[1] == 1) and (w == 1 or x.strides[3] == c)


def in_pixel_order(x: Operand) -> bool:
    """[n, c, h, w] with channels innermost and pixels at one distance: an image, or some of its channels."""
    _, c, h, w = x.sizes
    pixel = x.strides[3] if w > 1 else c
    return (c == 1 or x.strides[1] == 1) and pixel >= c and (h == 1 or x.strides[2] == w * pixel)


def padded(
    s: Selection, x: Operand, before: tuple[int, int], size: tuple[int, int], value: float, channels: int
) -> Operand:
    """A copy [n, channels, *size] with channels innermost, `value` around and behind the image."""
    n, c, h, w = x.sizes
    hp, wp = size
    line = wp * channels
    out = s.new_operand((n, channels, hp, wp), (hp * line, 1, line, channels), n * hp * line + 2 * LANES * LANES)
    taken_h, taken_w = min(h, hp - before[0]), min(w, wp - before[1])
    last = (before[0] + taken_h) * line
    strips: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []  # first element, sizes, strides
    if channels == c:  # the border alone: above, below with what tiles may reach behind the image, left and right
        for first in range(0, n * hp * line, hp * line):
            more = LANES if first == (n - 1) * hp * line else 0
            strips += [(first, (before[0] * line,), (1,)), (first + last, (hp * line - last + more,), (1,))]
        for start, width in ((0, before[1]), (before[1] + taken_w, wp - before[1] - taken_w)):
            place = before[0] * line + start * channels
            strips.append((place, (n, taken_h, width * channels), (hp * line, line, 1)))
    else:
        strips.append((0, (n * hp * line + LANES,), (1,)))
    for first, sizes, strides in strips:
        pointwise.emit(s, replace(behind(out, first), sizes=sizes, strides=strides), [], (("const", value),))
    inner = part(out, (n, c, taken_h, taken_w), (0, 0, *before))
    data.emit_copy(s, inner, replace(x, sizes=inner.sizes))
    return out


def four(x: Operand) -> Operand:
    """[n, c, w] or [n, c, 1, h, w] as [n, c, h, w]."""
    if len(x.sizes) == 3:
        return replace(x, sizes=(*x.sizes[:2], 1, x.sizes[2]), strides=(*x.strides[:2], 0, x.strides[2]))
    if len(x.sizes) == 5 and x.sizes[2] == 1:
        return replace(x, sizes=(*x.sizes[:2], *x.sizes[3:]), strides=(*x.strides[:2], *x.strides[3:]))
    if len(x.sizes) != 4:
        raise Unsupported(f"{len(x.sizes) - 2} spatial dimensions")
    return x


_WINDOW = ("kernel", "stride", "padding")  # parameters of all pooling by windows


def channels_innermost(s: Selection, sizes: tuple[int, ...]) -> Operand:
    """A new image [n, c, h, w]."""
    return s.new(sizes, (0, 2, 3, 1))


@contextmanager
def _pooled(s: Selection, x: Operand, out: Operand) -> Iterator[tuple[Operand, Operand]]:
    """Both with channels innermost: the operands themselves, or a copy of the image, and a result that is copied."""
    x, out = four(x), four(out)
    result = out
    if x.sizes[1] > 1 and x.strides[1] != 1:
        x = padded(s, x, (0, 0), (x.sizes[2], x.sizes[3]), 0.0, x.sizes[1])
    if x.sizes[1] > 1 and out.strides[1] != 1:
        result = channels_innermost(s, out.sizes)
    yield x, result
    if result is not out:
        data.emit_copy(s, out, result)


@selects("pool.average")
def average_pool(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    kernel, stride, padding = (launch.parameter(name) for name in _WINDOW)
    divisor = launch.parameter("divisor")
    if any(padding) and not launch.parameter("count_padding"):
        raise Unsupported("an average that leaves out the padding")
    size = four(x).sizes
    need = [(o - 1) * st + k for o, st, k in zip(four(out).sizes[2:], two(stride, out), two(kernel, out))]
    if any(n > h + 2 * p for n, h, p in zip(need, size[2:], two(padding, out))) and not divisor:
        raise Unsupported("an average over windows that the image does not fill")
    pool(s, launch, x, out, "sum", 1.0 / (divisor or prod(two(kernel, out))))


def two(values: tuple[int, ...], out: Operand) -> list[int]:
    """Height and width of three spatial parameters; images have d = 1 in front or nothing behind."""
    if len(out.sizes) == 5:
        return list(values[1:3])
    return list(values[:2]) if len(out.sizes) == 4 else [1, values[0]]


def pool(s: Selection, launch: Launch, x: Operand, out: Operand, kind: str, scale: float | None) -> None:
    kernel, stride, padding = (two(launch.parameter(name), out) for name in _WINDOW)
    dilation = two(launch.parameter("dilation"), out) if "dilation" in launch.contract.parameters else [1, 1]
    with _pooled(s, x, out) as (image, result):
        emit_planes(s, kind, image, result, (kernel, stride, padding, dilation), scale=scale or 1.0)


def distances(x: Operand) -> tuple[int, int, int]:
    """Elements from one image, line and pixel to the next."""
    n, c, h, w = x.sizes
    pixel = x.strides[3] if w > 1 else c
    return x.strides[0] if n > 1 else 0, x.strides[2] if h > 1 else w * pixel, pixel


def windows_over(x: Operand, out: Operand, shape: Sequence[Sequence[int]], channels: int) -> Image:
    """shape: kernel, stride, padding and dilation, (down, right) each."""
    kernel, stride, padding, dilation = ((int(a), int(b)) for a, b in shape)
    size, out_size = (x.sizes[2], x.sizes[3]), (out.sizes[2], out.sizes[3])
    places = distances(x), distances(out)
    return Image(x.sizes[0], channels, size, out_size, kernel, stride, padding, dilation, *places)


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
    """Windows over images with channels innermost; shape as for `windows_over`."""
    image = windows_over(x, out, shape, x.sizes[1])
    planned = plane.plan(kind, image, scale, bias is not None, activation)
    s.calls(plane.build, planned, {"o": out, "x": x, "w": weight, "bias": bias})


@selects("pool.adaptive_average")
def adaptive_average(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    (h, w), (oh, ow) = four(x).sizes[2:], four(out).sizes[2:]
    if (h, w) == (oh, ow):
        data.emit_copy(s, four(out), four(x))
        return
    if h % oh or w % ow:
        raise Unsupported(f"adaptive pooling of {h} x {w} to {oh} x {ow}")
    kh, kw = h // oh, w // ow
    with _pooled(s, x, out) as (image, result):
        emit_planes(s, "sum", image, result, ((kh, kw), (kh, kw), (0, 0), (1, 1)), scale=1.0 / (kh * kw))
