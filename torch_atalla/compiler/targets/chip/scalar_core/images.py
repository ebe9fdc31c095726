# SPDX-License-Identifier: BSD-3-Clause
"""Resampling and pooling of [n, c, d, h, w]."""

from __future__ import annotations

from functools import partial
from itertools import product

import torch

from ....program.ir import Operand
from ..resampling import taps
from .memory import Tensor
from .positions import positions, within
from .reductions import lowest
from .routine import Context, routine
from .values import Value

Taps = tuple[list[list[int]], list[list[float]]]  # of places of the result: places of the input, and weights


def resample(c: Context, kind: str) -> None:
    """Separable: each place takes the product of the taps of its dimensions."""
    core = c.core
    (out,), (x,) = c.outputs, c.inputs
    first = out.rank - 3
    tables = [taps(c.launch, kind, first, k) for k in range(3)]
    with positions(out) as here:
        target, start = out[here], x[here[:first]]
        if all(len(places[0]) == 1 and weights[0] == [1.0] for places, weights in tables):
            for k, (places, _) in enumerate(tables):
                start = start[_picked(c, here[first + k], [p[0] for p in places])]
            target.copy(start)
            return
        if out.kind != "f":
            target.store(_fixed_point(c, start, tables, here))
            return
        options = []
        for k, (places, weights) in enumerate(tables):
            options.append(
                [
                    (
                        _picked(c, here[first + k], [p[t] for p in places]),
                        _picked_weight(c, here[first + k], [w[t] for w in weights]),
                    )
                    for t in range(len(places[0]))
                ]
            )
        total = core.constant(0.0, "f")
        for chosen in product(*options):
            place, weight = start, None
            for position, share in chosen:
                place = place[position]
                if share is not None:
                    weight = share if weight is None else weight * share
            value = core.convert(place.load(), "f")
            total = total + (value if weight is None else value * weight)
        target.store(total)


def _fixed_point(c: Context, start: Tensor, tables: list[Taps], here: list[Value]) -> Value:
    """As upstream has it for 8-bit images: integer weights, and rounded after each pass: over depth, width, height.

    start: all that lies at one place of the other dimensions. The largest weight has 15 bits.
    """
    core = c.core
    first = c.inputs[0].rank - 3
    source, target = c.launch.inputs[0], c.launch.outputs[0]
    assert isinstance(source, Operand) and target is not None
    same = [a == b for a, b in zip(source.sizes[first:], target.sizes[first:])]

    def passed(place: Tensor, dims: list[int]) -> Value:
        if not dims:
            return place.load()
        k, *before = dims
        index = here[first + k]
        if same[k]:
            return passed(place.shifted(k, index), before)
        places, weights = _joined(*tables[k])
        largest = max(map(max, weights))
        precision = next(bits for bits in range(23) if bits == 22 or 0.5 + largest * (2 << bits) >= 1 << 15)
        total = core.value((1 << precision) >> 1)
        for t in range(len(places[0])):
            there = place.shifted(k, _picked(c, index, [row[t] for row in places]))
            shares = [int(w * (1 << precision) + (0.5 if w > 0 else -0.5)) for w in (row[t] for row in weights)]
            total = total + passed(there, before) * _picked(c, index, shares)
        total = total.shifted("sra.s", precision)
        total = core.select(total < 0, 0, total)
        return core.select(total < 255, total, 255)

    return passed(start, [1, 2, 0])


def _joined(places: list[list[int]], weights: list[list[float]]) -> Taps:
    """Taps of one place as one, whose weight is rounded once."""
    found: list[dict[int, float]] = [{} for _ in places]
    for joined, line, shares in zip(found, places, weights):
        for place, share in zip(line, shares):
            joined[place] = joined.get(place, 0.0) + share
    most = max(map(len, found))
    fill = [most - len(line) for line in found]
    return (
        [[*line, *[next(iter(line))] * n] for line, n in zip(found, fill)],
        [[*line.values(), *[0.0] * n] for line, n in zip(found, fill)],
    )


def _picked(c: Context, index: Value, table: list[int]) -> Value:
    """table[index], from a constant in DRAM; by arithmetic where the table is a line."""
    step = table[1] - table[0] if len(table) > 1 else 0
    if all(value == table[0] + step * i for i, value in enumerate(table)):
        return index * step + table[0]
    return c.constant(torch.tensor(table, dtype=torch.int32))[index].load()


def _picked_weight(c: Context, index: Value, table: list[float]) -> Value | None:
    if all(value == 1.0 for value in table):
        return None
    bits = torch.tensor(table, dtype=torch.float32).view(torch.int32)
    return c.constant(bits)[index].load().as_kind("f")


# -- pooling -----------------------------------------------------------------------------------------------------------
KINDS = ("nearest", "linear", "cubic", "linear_aa", "cubic_aa")
routine.update({f"resample.{kind}": partial(resample, kind=kind) for kind in KINDS})


def windows(c: Context, adaptive: bool, x: Tensor, pooled: Tensor, here: list[Value]) -> list[tuple[Value, Value]]:
    """For each dimension of a plane x: the first place of the window at `here` of `pooled`, and its length."""
    core = c.core
    found = []
    if adaptive:
        for dim, index in enumerate(here):
            size, target = x.size(dim), pooled.size(dim)
            first = core.divide(index * size, target)
            found.append((first, core.divide((index + 1) * size + target - 1, target) - first))
        return found
    for index, *parameters in zip(here, *(c.parameter(name) for name in ("kernel", "stride", "padding"))):
        kernel, stride, padding = map(int, parameters)
        found.append((index * stride - padding, core.value(kernel)))
    return found


@routine("pool.max", average=False, adaptive=False)
@routine("pool.adaptive_max", average=False, adaptive=True)
@routine("pool.average", average=True, adaptive=False)
@routine("pool.adaptive_average", average=True, adaptive=True)
def pool(c: Context, average: bool, adaptive: bool) -> None:
    core = c.core
    out, indices = (*c.outputs, None)[:2]
    x = c.inputs[0]
    kind = out.kind
    dilated = "dilation" in c.launch.contract.parameters
    steps = [int(d) for d in c.parameter("dilation")] if dilated else [1, 1, 1]
    with out.over([0, 1], out, indices, x) as (pooled, numbers, plane), positions(pooled) as here:
        window = windows(c, adaptive, plane, pooled, here)
        total = core.variable(core.constant(0, kind) if average else lowest(core, kind))
        best, seen = core.variable(-1), core.variable(0)
        (_, depth), (_, height), (_, width) = window
        with core.range(depth) as i, core.range(height) as j, core.range(width) as k:
            d, h, w = (first + number * step for (first, _), number, step in zip(window, (i, j, k), steps))
            inside = within(core, d, plane.size(0)) & within(core, h, plane.size(1)) & within(core, w, plane.size(2))
            with core.when(inside):
                value = plane[d, h, w].load()
                if average:
                    total.set(total + value)
                    seen.set(seen + 1)
                else:
                    better = (value > total) | best.equals(-1)
                    if kind == "f":
                        better = better | core.is_nan(value)
                    with core.when(better):
                        total.set(value)
                        best.set((d * plane.size(1) + h) * plane.size(2) + w)
        target = pooled[here]
        if average:
            count = divisor(c, adaptive, plane, window, seen)
            target.store(core.divide(total, core.convert(count, kind)))
        else:
            target.store(total)
        if numbers is not None and not average:
            numbers[here].store(best)


def divisor(c: Context, adaptive: bool, x: Tensor, window: list[tuple[Value, Value]], seen: Value) -> Value:
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
    for dim, ((first, length), padding) in enumerate(zip(window, c.parameter("padding"))):
        end, limit = first + length, x.size(dim) + int(padding)
        total = total * (core.select(end < limit, end, limit) - first)
    return total
