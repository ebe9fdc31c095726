# SPDX-License-Identifier: BSD-3-Clause
"""Softmax along any dimension, norms with their statistics, and losses."""

from __future__ import annotations

from torch_atalla.driver import c_abi

from . import functions as f
from .formula_functions import maximum
from .positions import within
from .reductions import NEGATIVE_INFINITY, mean_and_squares
from .routine import Context, routine
from .values import Value


@routine("softmax")
@routine("log_softmax", logarithm=True)
def softmax(c: Context, logarithm: bool = False) -> None:
    core = c.core
    (out,), (x,) = c.outputs, c.inputs
    with x.lines(c.parameter("dim"), out, x) as (target, line):
        low = core.bits(NEGATIVE_INFINITY, "f")
        most = core.fold(line.each(), low, lambda most, element: maximum(core, most, c.read(element, "f")))
        total = core.fold(line.each(), 0.0, lambda total, x: total + f.exp(core, c.read(x, "f") - most), "f")
        factor = f.log_e(core, total) if logarithm else 1.0 / total
        with line.each(target, line) as (result, element):
            difference = c.read(element, "f") - most
            result.store(difference - factor if logarithm else f.exp(core, difference) * factor)


@routine("layer_norm", centred=True)
@routine("rms_norm", centred=False)
def row_norm(c: Context, centred: bool) -> None:
    """layer_norm (centred) and rms_norm of [m, n]."""
    core = c.core
    x, weight, bias = (*c.inputs, None, None)[:3]
    with x.over([0], *c.outputs, x) as (out, mean, rstd, row):
        n = core.convert(row.size(0), "f")
        center, squares = mean_and_squares(c, row, n)
        if not centred:
            squares, center = squares + center * center * n, core.constant(0.0, "f")
        inverse = f.inverse_root(core, squares / n + float(c.parameter("eps")))
        for tensor, value in ((mean, center), (rstd, inverse)):
            if tensor is not None:
                tensor.store(value)
        with row.each(out, row, weight, bias) as (target, element, factor, shift):
            value = (element.load() - center) * inverse
            value = value if factor is None else value * factor.load()
            target.store(value if shift is None else value + shift.load())


@routine("channel_norm.statistics")
def channel_statistics(c: Context) -> None:
    core = c.core
    x = c.inputs[0].permuted([1, 0, 2])
    eps, momentum = float(c.parameter("eps")), float(c.parameter("momentum"))
    with x.over([0], *c.outputs, x) as (mean, rstd, running_mean, running_variance, channel):
        count = core.convert(channel.count(), "f")
        center, squares = mean_and_squares(c, channel, count)
        variance = squares / count
        inverse = f.inverse_root(core, variance + eps)
        if eps == 0 and c.parameter("zero_variance"):
            inverse = core.select(variance.equals(0.0), 0.0, inverse)
        mean.store(center)
        rstd.store(inverse)
        unbiased = squares / maximum(core, count - 1.0, core.constant(1.0, "f"))
        for tensor, value in ((running_mean, center), (running_variance, unbiased)):
            if tensor is not None:
                tensor.store(value * momentum + tensor.load() * (1 - momentum))


@routine("channel_norm.apply")
def channel_apply(c: Context) -> None:
    core, out = c.core, c.outputs[0]
    operands = (*c.inputs, None, None)[:5]
    with out.over([0, 1, 2], out, *operands) as (target, x, mean, rstd, weight, bias):
        center, inverse = mean.load(), rstd.load()
        if c.parameter("from_variance"):
            inverse = f.inverse_root(core, inverse + float(c.parameter("eps")))
        scale, shift = (None if operand is None else operand.load() for operand in (weight, bias))
        with target.each(target, x) as (result, element):
            value = (element.load() - center) * inverse
            value = value if scale is None else value * scale
            result.store(value if shift is None else value + shift)


# -- losses ------------------------------------------------------------------------------------------------------------
def _target(c: Context, raw: Value, classes: Value) -> tuple[Value, Value]:
    """The class, and whether it counts. Any other target outside of the classes is a fault."""
    raw = raw.as_kind("i")
    counts = ~raw.equals(int(c.parameter("ignore_index")))
    c.core.fault_unless(~counts | within(c.core, raw, classes), c_abi.ATALLA_ISA_FAULT_ELEMENT)
    return c.core.select(counts, raw, 0), counts


@routine("nll_loss")
def nll_loss(c: Context) -> None:
    core = c.core
    loss, total_weight = c.outputs
    x, target, weight = (*c.inputs, None)[:3]
    reduction = c.parameter("reduction")
    total, shares = core.variable(0.0, "f"), core.variable(0.0, "f")
    losses = loss if reduction == "none" else None
    with target.each(target, x.permuted([0, 2, 1]), losses) as (place, scores, result):
        label, counts = _target(c, place.load(), scores.size(0))
        share = weight[label].load() if weight is not None else core.constant(1.0, "f")
        share = core.select(counts, share, 0.0)
        value = core.select(counts, -(scores[label].load() * share), 0.0)
        if result is not None:
            result.store(value)
        else:
            total.set(total + value)
            shares.set(shares + share)
    if reduction != "none":
        loss.store(total / shares if reduction == "mean" else total)
    total_weight.store(shares)


@routine("nll_loss_backward")
def nll_loss_backward(c: Context) -> None:
    """Only the places of the targets are written."""
    core = c.core
    (grad,) = c.outputs
    grad_output, target, weight, total_weight = (*c.inputs, None, None)[:4]
    with target.each(target, grad.permuted([0, 2, 1]), grad_output) as (place, line, slope):
        label, counts = _target(c, place.load(), line.size(0))
        value = -c.read(slope, "f")
        if weight is not None:
            value = value * weight[label].load()
        if c.parameter("reduction") == "mean" and total_weight is not None:
            value = value / total_weight.load()
        with core.when(counts):
            line[label].store(value)
