# SPDX-License-Identifier: BSD-3-Clause
"""Resampling and pooling of [n, c, d, h, w]."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import floor

import torch

from ....program.ir import Operand
from ..kernels.pointwise import Unsupported
from . import functions as f
from .memory import Tensor
from .positions import positions, within
from .reductions import lowest
from .routine import Context
from .values import Value

SPATIAL = (2, 3, 4)


Taps = list[tuple[int, float]]  # places of the input that a place of the result takes, and their weights


def _taps(c: Context, kind: str, first: int, k: int) -> list[Taps]:
    """The taps of each place of the result along spatial dimension k, equally many. As upstream, they include places of
    weight 0, since an infinity or a NaN there counts (csrc/sim/kernels/image/resample_taps.h)."""
    out, x = c.launch.outputs[0], c.launch.inputs[0]
    assert isinstance(out, Operand) and isinstance(x, Operand)
    size, target = x.sizes[first + k], out.sizes[first + k]
    if size == target == 1 or size == target and kind not in ("linear", "cubic"):
        return [[(i, 1.0)] for i in range(target)]
    scale = (*c.parameter("scale"), 0.0, 0.0, 0.0)[k] or None
    if kind == "nearest":
        mode = c.parameter("mode")
        op = torch.ops.aten._upsample_nearest_exact1d if "exact" in mode else torch.ops.aten.upsample_nearest1d
        places = op(torch.arange(size, dtype=torch.float64).view(1, 1, size), [target], scale)
        return [[(int(i), 1.0)] for i in places.flatten()]
    align = bool(c.parameter("align_corners"))
    if kind.endswith("_aa"):
        return _antialiased(kind, size, target, align, scale)
    if kind == "linear" and size == target:
        return [[(i, 1.0), (i, 0.0)] for i in range(target)]
    step = (size - 1) / max(target - 1, 1) if align else 1 / scale if scale else size / target
    taps = []
    for i in range(target):
        position = step * i if align else step * (i + 0.5) - 0.5
        position = max(position, 0.0) if kind == "linear" else position
        place = min(floor(position), size - 1)
        share = min(max(position - place, 0.0), 1.0)
        near = [1 - share, share] if kind == "linear" else _cubic(share)
        begin = place if kind == "linear" else place - 1
        taps.append([(min(max(begin + j, 0), size - 1), weight) for j, weight in enumerate(near)])
    return taps


def _cubic(t: float) -> list[float]:
    """Keys' weights of the four places around a position that is t behind the second."""

    def near(x: float) -> float:
        return (1.25 * x - 2.25) * x * x + 1

    def far(x: float) -> float:
        return ((-0.75 * x + 3.75) * x - 6) * x + 3

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _antialiased(kind: str, size: int, target: int, align: bool, scale: float | None) -> list[Taps]:
    """What upstream's own resampling of the unit vectors gives."""
    ops = {"linear_aa": torch.ops.aten._upsample_bilinear2d_aa, "cubic_aa": torch.ops.aten._upsample_bicubic2d_aa}
    if kind not in ops:
        raise Unsupported(f"resampling by {kind}")
    # Two columns: with one, upstream's antialiased resampling gives the first row everywhere.
    columns = torch.eye(size, dtype=torch.float64).view(1, size, size, 1).expand(1, size, size, 2).contiguous()
    matrix = ops[kind](columns, [target, 2], align, scale, None)[0, :, :, 0]
    taps = [[(i, float(matrix[i, o])) for i in torch.nonzero(matrix[:, o]).flatten().tolist()] for o in range(target)]
    for line in taps:
        while len(line) < max(map(len, taps)):  # by halves, which sum up to the same
            place, weight = line.pop()
            line += [(place, weight / 2)] * 2
    return taps


def resample(c: Context, kind: str) -> None:
    """Separable: each place takes the product of the taps of its dimensions."""
    core = c.core
    (out,), (x,) = c.outputs, c.inputs
    first = out.rank - 3
    tables = [_taps(c, kind, first, k) for k in range(3)]
    with positions(out) as here:
        target = out.element(here)
        start = x.start
        for dim in range(first):
            start = x.at(start, dim, here[dim])
        if all(len(taps[0]) == 1 and taps[0][0][1] == 1.0 for taps in tables):
            for k, taps in enumerate(tables):
                start = x.at(start, first + k, _picked(c, here[first + k], [line[0][0] for line in taps]))
            out.copy_element(target, start)
            return
        options = []
        for k, taps in enumerate(tables):
            options.append(
                [
                    (
                        _picked(c, here[first + k], [place for place, _ in column]),
                        _picked_weight(c, here[first + k], [weight for _, weight in column]),
                    )
                    for column in zip(*taps)
                ]
            )
        total = core.constant(0.0, "f")
        for chosen in product(*options):
            place, weight = start, None
            for k, (position, share) in enumerate(chosen):
                place = x.at(place, first + k, position)
                if share is not None:
                    weight = share if weight is None else weight * share
            value = core.convert(x.load(place), "f")
            total = total + (value if weight is None else value * weight)
        out.store(target, total if out.kind == "f" else f.round_even(core, total))


def _picked(c: Context, index: Value, table: list[int]) -> Value:
    """table[index], from a constant in DRAM; by arithmetic where the table is a line."""
    step = table[1] - table[0] if len(table) > 1 else 0
    if all(value == table[0] + step * i for i, value in enumerate(table)):
        return index * step + table[0]
    words = c.constant(torch.tensor(table, dtype=torch.int32))
    return words.load(words.at(words.start, 0, index))


def _picked_weight(c: Context, index: Value, table: list[float]) -> Value | None:
    if all(value == 1.0 for value in table):
        return None
    bits = torch.tensor(table, dtype=torch.float32).view(torch.int32)
    words = c.constant(bits)
    return words.load(words.at(words.start, 0, index)).as_kind("f")


# -- pooling -----------------------------------------------------------------------------------------------------------
def windows(
    c: Context, adaptive: bool, x: Tensor, pooled: Tensor, here: list[Value]
) -> tuple[list[Value], list[Value]]:
    """For each spatial dimension: the first place in x of the window at `here` of `pooled`, and its length."""
    core = c.core
    if adaptive:
        firsts, lengths = [], []
        for k, dim in enumerate(SPATIAL):
            size, target = x.size(dim), pooled.size(dim)
            first = core.divide(here[k] * size, target)
            firsts.append(first)
            lengths.append(core.divide((here[k] + 1) * size + target - 1, target) - first)
        return firsts, lengths
    kernel, stride, padding = ([*c.parameter(name)] for name in ("kernel", "stride", "padding"))
    firsts = [here[k] * int(stride[k]) - int(padding[k]) for k in range(3)]
    return firsts, [core.value(int(n)) for n in kernel]


def pool(c: Context, average: bool, adaptive: bool) -> None:
    core = c.core
    out, indices = (*c.outputs, None)[:2]
    x = c.inputs[0]
    dilated = "dilation" in c.launch.contract.parameters
    with positions(out) as (n, channel, *here):
        firsts, lengths = windows(c, adaptive, x, out, here)
        steps = [int(d) for d in c.parameter("dilation")] if dilated else [1, 1, 1]
        plane = x.at(x.at(x.start, 0, n), 1, channel)
        kind = out.kind
        total = core.variable(core.constant(0, kind) if average else lowest(core, kind))
        best, seen = core.variable(-1), core.variable(0)
        with core.range(lengths[0]) as i, core.range(lengths[1]) as j, core.range(lengths[2]) as k:
            d, h, w = (first + number * step for first, number, step in zip(firsts, (i, j, k), steps))
            inside = within(core, d, x.size(2)) & within(core, h, x.size(3)) & within(core, w, x.size(4))
            with core.when(inside):
                value = x.load(x.at(x.at(x.at(plane, 2, d), 3, h), 4, w))
                if average:
                    total.set(total + value)
                    seen.set(seen + 1)
                else:
                    better = (value > total) | best.equals(-1)
                    if kind == "f":
                        better = better | core.is_nan(value)
                    with core.when(better):
                        total.set(value)
                        best.set((d * x.size(3) + h) * x.size(4) + w)
        target = out.element([n, channel, *here])
        if average:
            count = divisor(c, adaptive, x, firsts, lengths, seen)
            out.store(target, core.divide(total, core.convert(count, kind)))
        else:
            out.store(target, total)
        if indices is not None and not average:
            indices.store(indices.element([n, channel, *here]), best)


def divisor(c: Context, adaptive: bool, x: Tensor, firsts: list[Value], lengths: list[Value], seen: Value) -> Value:
    """Of the sum of a window; seen: how many of its places are in x."""
    core = c.core
    if adaptive:
        return seen
    if c.parameter("divisor"):
        return core.value(int(c.parameter("divisor")))
    if not c.parameter("count_padding"):
        return seen
    # Windows end with the padding: what lies behind it does not count.
    total = core.value(1)
    for k, dim in enumerate(SPATIAL):
        end = firsts[k] + lengths[k]
        limit = x.size(dim) + int(c.parameter("padding")[k])
        total = total * (core.select(end < limit, end, limit) - firsts[k])
    return total


_KINDS = ("nearest", "linear", "cubic", "linear_aa", "cubic_aa")
ROUTINES = {
    **{f"resample.{kind}": partial(resample, kind=kind) for kind in _KINDS},
    "pool.max": partial(pool, average=False, adaptive=False),
    "pool.adaptive_max": partial(pool, average=False, adaptive=True),
    "pool.average": partial(pool, average=True, adaptive=False),
    "pool.adaptive_average": partial(pool, average=True, adaptive=True),
}
