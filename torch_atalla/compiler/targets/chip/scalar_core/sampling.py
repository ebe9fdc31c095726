# SPDX-License-Identifier: BSD-3-Clause
"""grid_sample: the values of an image at places that a grid names."""

from __future__ import annotations

from itertools import product

from ..resampling import cubic
from . import functions as f
from .memory import Tensor
from .positions import positions
from .routine import Context, routine
from .values import Core, Value


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


def _taps(core: Core, axis: Axis, mode: str, x: Value) -> list[tuple[Value, Value | None]]:
    """Whole numbers, as FP32, with their weights."""
    place = axis.place(x)
    if mode == "nearest":
        return [(f.round_even(core, axis.padded(place)), None)]
    if mode == "cubic":
        first = f.floor(core, place)
        weights = cubic(place - first)
        return [(axis.padded(first + float(k - 1)), weight) for k, weight in enumerate(weights)]
    place = axis.padded(place)
    first = f.floor(core, place)
    second_weight = place - first
    return [(first, 1.0 - second_weight), (first + 1.0, second_weight)]


@routine("grid_sample")
def grid_sample(c: Context) -> None:
    core = c.core
    (out,), (image, grid) = c.outputs, c.inputs
    mode, spatial = c.parameter("mode"), c.launch.reads()[1].sizes[4]
    with positions(out, [0, 2, 3, 4]) as (n, d, h, w):
        point = grid[n, d, h, w]
        axes = [Axis(c, image.size(5 - spatial + k)) for k in range(spatial)]
        given = [point[spatial - 1 - k].load() for k in range(spatial)]
        taps = [_taps(core, axis, mode, x) for axis, x in zip(axes, given)]
        with positions(out, [1]) as (channel,):
            total, plane = core.variable(0.0, "f"), image[n, channel]
            for chosen in product(*taps):
                _add_tap(c, plane, axes, chosen, total)
            out[n, channel, d, h, w].store(total)


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
