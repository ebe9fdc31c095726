# SPDX-License-Identifier: BSD-3-Clause
"""Softmax along any dimension, norms with their statistics, and losses."""

from __future__ import annotations

from functools import partial

from torch_atalla.driver import c_abi

from . import functions as f
from .formula_functions import maximum
from .memory import Tensor
from .positions import positions, within
from .reductions import NEGATIVE_INFINITY, lines, mean_and_squares
from .routine import Context
from .values import Value


def softmax(c: Context, logarithm: bool = False) -> None:
    core = c.core
    (out,), (x,) = c.outputs, c.inputs
    dim = c.parameter("dim")
    with lines(x, dim, [out, x]) as (target, source):
        most, total = core.variable(core.bits(NEGATIVE_INFINITY, "f")), core.variable(0.0, "f")
        with x.each([dim], {x: source}) as (place,):
            most.set(maximum(core, most, c.read(x, place, "f")))
        with x.each([dim], {x: source}) as (place,):
            total.set(total + f.exp(core, c.read(x, place, "f") - most))
        factor = f.log_e(core, total) if logarithm else core.constant(1.0, "f") / total
        with x.each([dim], {out: target, x: source}) as (o, place):
            difference = c.read(x, place, "f") - most
            out.store(o, difference - factor if logarithm else f.exp(core, difference) * factor)


def row_norm(c: Context, centred: bool) -> None:
    """layer_norm (centred) and rms_norm of [m, n]."""
    core = c.core
    out, mean, rstd = c.outputs
    x, weight, bias = (*c.inputs, None, None)[:3]
    tensors = [t for t in (out, mean, rstd, x) if t is not None]
    with x.each([0], tensors) as places:
        at = dict(zip(map(id, tensors), places))
        n = core.convert(x.size(1), "f")
        center, squares = mean_and_squares(c, x, [1], at[id(x)], n)
        if not centred:
            squares, center = squares + center * center * n, core.constant(0.0, "f")
        inverse = core.new("rcp.bf", "f", f.square_root(core, squares / n + float(c.parameter("eps"))))
        for tensor, value in ((mean, center), (rstd, inverse)):
            if tensor is not None:
                tensor.store(at[id(tensor)], value)
        columns = {t: at.get(id(t), t.start) for t in (out, x, weight, bias) if t is not None}
        with x.each([1], columns) as here:
            found = dict(zip(map(id, columns), here))
            value = (x.load(found[id(x)]) - center) * inverse
            if weight is not None:
                value = value * weight.load(found[id(weight)])
            if bias is not None:
                value = value + bias.load(found[id(bias)])
            out.store(found[id(out)], value)


def channel_statistics(c: Context) -> None:
    core = c.core
    mean, rstd, running_mean, running_variance = c.outputs
    (x,) = c.inputs
    eps, momentum = float(c.parameter("eps")), float(c.parameter("momentum"))
    tensors = [t for t in (mean, rstd, running_mean, running_variance) if t is not None]
    with mean.each([0], tensors) as places:
        at = dict(zip(map(id, tensors), places))
        channel = core.divide(at[id(mean)] - mean.start, mean.stride(0))
        count = core.convert(x.size(0) * x.size(2), "f")
        center, squares = mean_and_squares(c, x, [0, 2], x.at(x.start, 1, channel), count)
        variance = squares / count
        inverse = core.new("rcp.bf", "f", f.square_root(core, variance + eps))
        if eps == 0 and c.parameter("zero_variance"):
            inverse = core.select(variance.equals(0.0), 0.0, inverse)
        mean.store(at[id(mean)], center)
        rstd.store(at[id(rstd)], inverse)
        unbiased = squares / maximum(core, count - 1.0, core.constant(1.0, "f"))
        for tensor, value in ((running_mean, center), (running_variance, unbiased)):
            if tensor is not None:
                place = at[id(tensor)]
                tensor.store(place, value * momentum + tensor.load(place) * (1 - momentum))


def channel_apply(c: Context) -> None:
    core = c.core
    (out,) = c.outputs
    x, mean, rstd, weight, bias = (*c.inputs, None, None)[:5]
    small = [t for t in (mean, rstd, weight, bias) if isinstance(t, Tensor)]
    with out.each([0, 1, 2], [out, x, *small]) as places:
        at = dict(zip(map(id, [out, x, *small]), places))
        center, inverse = mean.load(at[id(mean)]), rstd.load(at[id(rstd)])
        if c.parameter("from_variance"):
            inverse = core.new("rcp.bf", "f", f.square_root(core, inverse + float(c.parameter("eps"))))
        scale = weight.load(at[id(weight)]) if weight is not None else None
        shift = bias.load(at[id(bias)]) if bias is not None else None
        with out.each([3], {out: at[id(out)], x: at[id(x)]}) as (target, place):
            value = (x.load(place) - center) * inverse
            value = value * scale if scale is not None else value
            out.store(target, value + shift if shift is not None else value)


# -- losses ------------------------------------------------------------------------------------------------------------
def _target(c: Context, raw: Value, classes: Value) -> tuple[Value, Value]:
    """The class, and whether it counts. Any other target outside of the classes is a fault."""
    raw = raw.as_kind("i")
    counts = ~raw.equals(int(c.parameter("ignore_index")))
    c.core.fault_unless(~counts | within(c.core, raw, classes), c_abi.ATALLA_ISA_FAULT_ELEMENT)
    return c.core.select(counts, raw, 0), counts


def nll_loss(c: Context) -> None:
    core = c.core
    loss, total_weight = c.outputs
    x, target, weight = (*c.inputs, None)[:3]
    reduction = c.parameter("reduction")
    total, shares = core.variable(0.0, "f"), core.variable(0.0, "f")
    with positions(target) as (n, s):
        label, counts = _target(c, target.load(target.element([n, s])), x.size(1))
        share = weight.load(weight.element([label])) if weight is not None else core.constant(1.0, "f")
        share = core.select(counts, share, 0.0)
        value = core.select(counts, -(x.load(x.element([n, label, s])) * share), 0.0)
        if reduction == "none":
            loss.store(loss.element([n, s]), value)
        else:
            total.set(total + value)
            shares.set(shares + share)
    if reduction != "none":
        loss.store(loss.start, total / shares if reduction == "mean" else total)
    total_weight.store(total_weight.start, shares)


def nll_loss_backward(c: Context) -> None:
    """Only the places of the targets are written."""
    core = c.core
    (grad,) = c.outputs
    grad_output, target, weight, total_weight = (*c.inputs, None, None)[:4]
    with positions(target) as (n, s):
        label, counts = _target(c, target.load(target.element([n, s])), grad.size(1))
        value = -c.read(grad_output, grad_output.element([n, s]) if isinstance(grad_output, Tensor) else None, "f")
        if weight is not None:
            value = value * weight.load(weight.element([label]))
        if c.parameter("reduction") == "mean" and total_weight is not None:
            value = value / total_weight.load(total_weight.start)
        with core.when(counts):
            grad.store(grad.element([n, label, s]), value)


ROUTINES = {
    "softmax": softmax, "log_softmax": partial(softmax, logarithm=True),
    "layer_norm": partial(row_norm, centred=True), "rms_norm": partial(row_norm, centred=False),
    "channel_norm.statistics": channel_statistics, "channel_norm.apply": channel_apply, "nll_loss": nll_loss,
    "nll_loss_backward": nll_loss_backward,
}  # fmt: skip
