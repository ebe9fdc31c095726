# SPDX-License-Identifier: BSD-3-Clause
"""Means and deviations of norms, norms of channels, and the logarithm of a softmax, as reductions and pointwise
programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import torch

from ....program.ir import Launch, Operand
from ..kernels.pointwise import Chain, Unsupported
from ..scalar_core import routine_of
from ..scalar_core.routine import emit as emit_routine
from ..selection import Selection, operands_of, selects
from . import pointwise
from .lines import moved, norm
from .reductions import reduce_into


def like(s: Selection, x: Operand) -> Operand:
    """A new temporary of x's sizes, dense in the order of its strides."""
    return s.new(x.sizes, sorted(range(len(x.sizes)), key=lambda d: (-x.strides[d], d)))


def spread(x: Operand, sizes: Sequence[int], dims: Sequence[int]) -> Operand:
    """x over tensors of `sizes`, of whose dimensions it has `dims`."""
    strides = [0] * len(sizes)
    for d, step in zip(dims, x.strides, strict=True):
        strides[d] = step
    return replace(x, sizes=tuple(sizes), strides=tuple(strides))


def single(x: Operand, rank: int, dims: Sequence[int]) -> Operand:
    """x with dimensions of one element between its own, which become `dims`."""
    sizes = [1] * rank
    for d, size in zip(dims, x.sizes, strict=True):
        sizes[d] = size
    return spread(x, sizes, dims)


def deviation(s: Selection, x: Operand, mean: Operand | None, kept: list[int]) -> Operand:
    """The mean square of x - mean over the other dimensions, in a new temporary."""
    reduced = [d for d in range(len(x.sizes)) if d not in kept]
    squares = like(s, x)
    if mean is None:
        pointwise.emit(s, squares, [x], (("mul", 0, 0),))
    else:
        pointwise.emit(s, squares, [x, spread(mean, x.sizes, kept)], (("sub", 0, 1), ("mul", 2, 2)))
    variance = s.new([x.sizes[d] for d in kept])
    scale = 1.0 / prod(x.sizes[d] for d in reduced)
    reduce_into(s, "sum", single(variance, len(x.sizes), kept), squares, reduced, kept, scale)
    return variance


def row_statistics(s: Selection, launch: Launch, centred: bool) -> None:
    """The mean and the reciprocal deviation of the rows of layer_norm and rms_norm."""
    _, mean, rstd = launch.outputs
    x = launch.inputs[0]
    assert isinstance(x, Operand)
    center = mean
    if centred:
        center = mean or s.new(x.sizes[:1])
        reduce_into(s, "sum", single(center, 2, [0]), x, [1], [0], 1.0 / x.sizes[1])
    if rstd is not None:
        variance = deviation(s, x, center, [0])
        pointwise.emit(s, rstd, [variance], (("add", 0, float(launch.parameter("eps"))), ("rsqrt", 1)))


@selects("channel_norm.statistics")
def channel_statistics(s: Selection, launch: Launch) -> None:
    mean, rstd, running_mean, running_variance = launch.outputs
    (x,) = launch.inputs
    assert isinstance(x, Operand) and mean is not None and rstd is not None
    eps, share = float(launch.parameter("eps")), float(launch.parameter("momentum"))
    if eps == 0:
        raise Unsupported("a variance that may be 0")
    count = x.sizes[0] * x.sizes[2]
    reduce_into(s, "sum", single(mean, 3, [1]), x, [0, 2], [1], 1.0 / count)
    variance = deviation(s, x, mean, [1])
    pointwise.emit(s, rstd, [variance], (("add", 0, eps), ("rsqrt", 1)))
    unbiased = share * count / max(count - 1, 1)
    for running, new, factor in ((running_mean, mean, share), (running_variance, variance, unbiased)):
        if running is not None:
            steps = (("mul", 0, factor), ("mul", 1, 1.0 - share), ("add", 2, 3))
            pointwise.emit(s, running, [new, running], steps)


@selects("channel_norm.apply")
def channel_apply(s: Selection, launch: Launch) -> None:
    (out,) = launch.outputs
    x, mean, rstd, weight, bias = (*launch.inputs, None, None)[:5]
    assert out is not None and isinstance(x, Operand) and isinstance(rstd, Operand)
    if launch.parameter("from_variance"):
        sizes = tuple(1 if step == 0 else size for size, step in zip(rstd.sizes, rstd.strides))
        given = replace(rstd, sizes=sizes)
        made = s.new(sizes)
        pointwise.emit(s, made, [given], (("add", 0, float(launch.parameter("eps"))), ("rsqrt", 1)))
        strides = tuple(step if size > 1 else 0 for size, step in zip(sizes, made.strides))
        rstd = replace(made, sizes=rstd.sizes, strides=strides)
    given_steps = (("sub", mean), ("mul", rstd), ("mul", weight), ("add", bias))
    operands = [(name, operand) for name, operand in given_steps if isinstance(operand, Operand)]
    chain, value = Chain(1 + len(operands)), 0
    for number, (name, _) in enumerate(operands, 1):
        value = chain.add(name, value, number)
    spread_out = [replace(operand, sizes=out.sizes, strides=(*operand.strides, 0)) for _, operand in operands]
    pointwise.emit(s, out, [x, *spread_out], tuple(chain.steps))


@selects("log_softmax")
def log_softmax(s: Selection, launch: Launch) -> None:
    """(x - m) - log(sum of exp(x - m)), m the maximum. The logarithms are the scalar core's."""
    out, x = operands_of(launch)
    if x.dtype is torch.bool:
        raise Unsupported("softmax of truth values")
    last = len(x.sizes) - 1
    x, out = (moved(operand, launch.parameter("dim"), last) for operand in (x, out))
    kept = list(range(last))
    most, total, log = (s.new(x.sizes[:last]) for _ in range(3))
    reduce_into(s, "max", single(most, last + 1, kept), x, [last], kept, 1.0)
    powers = like(s, x)
    inputs = [x, spread(most, x.sizes, kept)]
    pointwise.emit(s, powers, inputs, (("sub", 0, 1), ("exp", 2)))
    reduce_into(s, "sum", single(total, last + 1, kept), powers, [last], kept, 1.0)
    logarithm = Launch("pointwise.log", (log,), (total,), torch.float32, node=launch.node)
    body = routine_of(logarithm)
    assert body is not None
    emit_routine(s, logarithm, body)
    pointwise.emit(s, out, [*inputs, spread(log, x.sizes, kept)], (("sub", 0, 1), ("sub", 3, 2)))


@selects("layer_norm", centred=True)
@selects("rms_norm", centred=False)
def row_norm(s: Selection, launch: Launch, centred: bool) -> None:
    norm(s, launch)
    if any(statistic is not None for statistic in launch.outputs[1:]):
        row_statistics(s, launch, centred)
