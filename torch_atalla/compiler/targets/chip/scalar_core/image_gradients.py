# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of pooling and padding, which add to the places that the forward pass took."""

from __future__ import annotations

from .images import divisor, windows
from .memory import Tensor
from .positions import PADDINGS, positions, within
from .routine import Context, routine
from .values import Value


def _clear(c: Context, x: Tensor) -> None:
    zero = c.core.constant(0, x.kind)
    with x.each() as (element,):
        element.store(zero)


def _add(element: Tensor, value: Value) -> None:
    element.store(element.load() + value)


@routine("pool.scatter")
def pool_scatter(c: Context) -> None:
    """Indices count the places of a plane. Where its lines follow one another, an index needs no division."""
    core = c.core
    (out,), (x, indices) = c.outputs, c.inputs
    _clear(c, out)
    height, width = out.size(3), out.size(4)
    area = height * width
    step = out.stride(4)
    even = (out.stride(3).equals(width * step) | height.equals(1)) & (
        out.stride(2).equals(area * step) | out.size(2).equals(1)
    )
    count = area * out.size(2)
    with x.over([0, 1], out, x, indices) as (plane, values, numbers):
        with values.each(values, numbers) as (element, number):
            index = number.load().as_kind("i")
            core.fault_unless(within(core, index, count))
            place = core.variable(plane.start + index * step)
            with core.when(~even):
                row = core.divide(index, width)
                depth = core.divide(row, height)
                column, line = index - row * width, row - depth * height
                place.set(plane[depth, line, column].start)
            target, value = out.moved_to(place), element.load()
            if c.parameter("add"):
                _add(target, value)
            else:
                target.store(value)


@routine("pool_backward.average", adaptive=False)
@routine("pool_backward.adaptive_average", adaptive=True)
def pool_average_backward(c: Context, adaptive: bool) -> None:
    core = c.core
    (grad,), (x,) = c.outputs, c.inputs
    _clear(c, grad)
    with x.over([0, 1], x, grad) as (pooled, plane), positions(pooled) as here:
        window = windows(c, adaptive, plane, pooled, here)
        begins, counts = [], []
        for dim, (first, length) in enumerate(window):
            begin = core.select(first < 0, 0, first)
            end, size = first + length, plane.size(dim)
            begins.append(begin)
            counts.append(core.select(end < size, end, size) - begin)
        seen = counts[0] * counts[1] * counts[2]
        count = divisor(c, adaptive, plane, window, seen)
        share = pooled[here].load() / core.convert(count, "f")
        with core.range(counts[0]) as i, core.range(counts[1]) as j, core.range(counts[2]) as k:
            _add(plane[[begin + number for begin, number in zip(begins, (i, j, k))]], share)


@routine("pad_backward.reflect", kind="reflect")
@routine("pad_backward.replicate", kind="replicate")
def pad_backward(c: Context, kind: str) -> None:
    (grad,), (x,) = c.outputs, c.inputs
    source = PADDINGS[kind]
    _clear(c, grad)
    with positions(x) as here:
        there = [source(c, grad, dim, index) for dim, index in enumerate(here)]
        _add(grad[there], x[here].load())
