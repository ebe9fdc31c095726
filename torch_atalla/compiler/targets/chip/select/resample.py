# SPDX-License-Identifier: BSD-3-Clause
"""Linear resampling: one dimension after the other, each by sums of weighted rows.

Places of the result whose taps have equal weights, and which follow each other at equal distances, are one pointwise
program on strided views. A factor of 2 makes four of them: even and odd places, and both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce

import torch

from torch_atalla.isa.geometry import LANES

from ....program.ir import Launch, Operand
from ..kernels.pointwise import Chain, Unsupported
from ..resampling import taps
from ..selection import Selection, operands_of, selects
from . import data, pointwise
from .moves import behind

SPATIAL = 3
MOST_RUNS = 48  # along a dimension; each has code of its own


@dataclass(frozen=True)
class Run:
    """Places `first`, `first + step`, ... of the result, and for each tap its weight, first place and step."""

    first: int
    step: int
    count: int
    taps: tuple[tuple[float, int, int], ...]


def runs(places: list[list[int]], weights: list[list[float]]) -> Iterator[Run]:
    """All places of a dimension in runs."""
    alike: dict[tuple[float, ...], list[tuple[int, list[int]]]] = {}
    rounded = torch.tensor(weights, dtype=torch.float64).bfloat16().tolist()
    for place, (row, shares) in enumerate(zip(places, rounded)):
        alike.setdefault(tuple(shares), []).append((place, row))
    for shares, members in alike.items():
        while members:
            first, sources = members[0]
            count, step, moves = 1, 0, [0] * len(sources)
            if len(members) > 1:
                step, moves = members[1][0] - first, [b - a for a, b in zip(sources, members[1][1])]
            while count < len(members) and members[count] == (
                first + count * step,
                [source + count * move for source, move in zip(sources, moves)],
            ):
                count += 1
            yield Run(first, step, count, tuple(zip(shares, sources, moves)))
            members = members[count:]


def _along(x: Operand, dim: int, first: int, step: int, count: int) -> Operand:
    """Some places of a dimension."""
    sizes, strides = list(x.sizes), list(x.strides)
    sizes[dim], strides[dim] = count, step * strides[dim]
    return replace(behind(x, first * x.strides[dim]), sizes=tuple(sizes), strides=tuple(strides))


def _new(s: Selection, sizes: tuple[int, ...], inner: int) -> Operand:
    """A temporary with this dimension innermost."""
    return s.new(sizes, [*(d for d in range(len(sizes)) if d != inner), inner])


def _inner(sizes: tuple[int, ...], dim: int, left: list[int]) -> int:
    """The dimension for the lanes of a pass along `dim`: one that no later pass resamples, if it fills them."""
    others = [d for d in range(len(sizes)) if d != dim]
    return max(others, key=lambda d: (d not in left and sizes[d] >= LANES, sizes[d]))


@selects("resample.linear")
def linear(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    first = len(out.sizes) - SPATIAL
    dims = [d for d in range(first, len(out.sizes)) if x.sizes[d] != out.sizes[d] or x.sizes[d] > 1]
    dims.sort(key=lambda d: out.sizes[d] / x.sizes[d])  # those first that make the image smaller
    plans = {d: list(runs(*taps(launch, "linear", first, d - first))) for d in dims}
    most = max(map(len, plans.values()), default=0)
    if most > MOST_RUNS:
        raise Unsupported(f"weights of {most} kinds; at most {MOST_RUNS}")
    current = x
    for number, dim in enumerate(dims):
        left = dims[number + 1 :]
        inner = _inner(current.sizes, dim, left)
        if current.strides[inner] != 1:
            moved = _new(s, current.sizes, inner)
            data.emit_copy(s, moved, current)
            current = moved
        sizes = tuple(out.sizes[d] if d == dim else size for d, size in enumerate(current.sizes))
        target = out if not left and out.strides[inner] == 1 else _new(s, sizes, inner)
        for run in plans[dim]:
            place = _along(target, dim, run.first, run.step, run.count)
            sources = [_along(current, dim, start, step, run.count) for _, start, step in run.taps]
            _weighted_sum(s, place, sources, [weight for weight, *_ in run.taps])
        current = target
    if current is not out:
        data.emit_copy(s, out, current)


def _weighted_sum(s: Selection, out: Operand, sources: list[Operand], weights: list[float]) -> None:
    if weights == [1.0]:
        data.emit_copy(s, out, sources[0])
        return
    chain = Chain(len(sources))
    reduce(partial(chain.add, "add"), [chain.add("mul", i, weight) for i, weight in enumerate(weights)])
    pointwise.emit(s, out, sources, tuple(chain.steps))
