# SPDX-License-Identifier: BSD-3-Clause
"""grid_sample: the values of an image at places that a grid names."""

from __future__ import annotations

from itertools import product

from . import functions as f
from .memory import Tensor
from .positions import positions
from .routine import Context
from .values import Core, Value

A = -0.75  # of cubic convolution, as upstream


class Axis:
    """One dimension of the image. Places are FP32."""

    def __init__(self, c: Context, size: Value) -> None:
        self.core: Core = c.core
        self.align = bool(c.parameter("align_corners"))
        self.padding = c.parameter("padding")
        self.size = c.core.convert(size, "f")

    def place(self, x: Value) -> Value:
        """From [-1, 1] to elements."""
        if self.align:
            return (x + 1.0) * ((self.size - 1.0) * 0.5)
        return (x + 1.0) * (self.size * 0.5) - 0.5

    def padded(self, x: Value) -> Value:
        if self.padding == "reflection":
            x = self._reflected(x)
        return x if self.padding == "zeros" else self._clipped(x)

    def _clipped(self, x: Value) -> Value:
        """A NaN becomes 0."""
        x = self.core.select(x > 0.0, x, 0.0)
        return self.core.select(x < self.size - 1.0, x, self.size - 1.0)

    def _reflected(self, x: Value) -> Value:
        low = 0.0 if self.align else -0.5
        span = (self.size - 1.0 if self.align else self.size) * 2.0
        distance = self.core.magnitude(x - low)
        extra = distance - f.trunc(self.core, distance / span) * span
        mirrored = self.core.select(extra < span - extra, extra, span - extra) + low
        return self.core.select(span.equals(0.0), 0.0, mirrored)

    def inside(self, x: Value) -> Value:
        """Of a whole number. A NaN is not."""
        return (x > -1.0) & (x < self.size)


def _cubic(x: Value) -> list[Value]:
    """The weights of the elements at -1, 0, 1 and 2 for a place x in [0, 1)."""

    def far(d: Value) -> Value:
        return ((d - 5.0) * d + 8.0) * d * A - 4.0 * A

    def near(d: Value) -> Value:
        return (d * (A + 2.0) - (A + 3.0)) * d * d + 1.0

    return [far(x + 1.0), near(x), near(1.0 - x), far(2.0 - x)]


def _taps(core: Core, axis: Axis, mode: str, x: Value) -> list[tuple[Value, Value | None]]:
    """Whole numbers, as FP32, with their weights."""
    place = axis.place(x)
    if mode == "nearest":
        return [(f.round_even(core, axis.padded(place)), None)]
    if mode == "cubic":
        first = f.floor(core, place)
        weights = _cubic(place - first)
        return [(axis.padded(first + float(k - 1)), weight) for k, weight in enumerate(weights)]
    place = axis.padded(place)
    first = f.floor(core, place)
    second_weight = place - first
    return [(first, 1.0 - second_weight), (first + 1.0, second_weight)]


def grid_sample(c: Context) -> None:
    core = c.core
    (out,), (image, grid) = c.outputs, c.inputs
    mode, spatial = c.parameter("mode"), _coordinates(c)
    with positions(out, [0, 2, 3, 4]) as (n, d, h, w):
        point = grid[n, d, h, w]
        axes = [Axis(c, image.size(5 - spatial + k)) for k in range(spatial)]
        given = [point[spatial - 1 - k].load() for k in range(spatial)]
        taps = [_taps(core, axis, mode, x) for axis, x in zip(axes, given)]
        with positions(out, [1]) as (channel,):
            total = core.variable(0.0, "f")
            for chosen in product(*taps):
                _add_tap(c, image[n, channel], axes, chosen, total)
            out[n, channel, d, h, w].store(total)


def _coordinates(c: Context) -> int:
    grid = c.launch.inputs[1]
    return int(grid.sizes[4])  # type: ignore[union-attr]


def _add_tap(
    c: Context, plane: Tensor, axes: list[Axis], chosen: tuple[tuple[Value, Value | None], ...], total: Value
) -> None:
    """Nothing for a tap outside of the image."""
    core, inside, weight = c.core, c.core.bits(1, "b"), None
    place = plane.permuted(range(plane.rank - len(axes), plane.rank))
    for axis, (position, share) in zip(axes, chosen):
        ok = axis.inside(position)
        inside = inside & ok
        number = core.new("bfts.s", "i", core.select(ok, position, 0.0))
        place = place[number]
        if share is not None:
            weight = share if weight is None else weight * share
    with core.when(inside):
        value = place.load()
        total.set(total + (value if weight is None else value * weight))


ROUTINES = {"grid_sample": grid_sample}
