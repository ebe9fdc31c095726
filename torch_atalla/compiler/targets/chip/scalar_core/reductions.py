# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over any dimensions, and scans."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from typing import Any

from . import functions as f
from .formula_functions import maximum, minimum
from .memory import Operand, Tensor
from .routine import Body, Context, routine
from .values import INFINITY, SIGN, Core, Number, Value

NEGATIVE_INFINITY = INFINITY | SIGN


def over_kept(c: Context, x: Tensor, *operands: Operand) -> AbstractContextManager[list[Any]]:
    """Passes over the dimensions that are not reduced."""
    return x.over([d for d in range(x.rank) if not c.parameter("reduced") >> d & 1], *operands)


def lowest(core: Core, kind: str) -> Value:
    return core.bits(NEGATIVE_INFINITY, "f") if kind == "f" else core.bits(SIGN, kind)


def highest(core: Core, kind: str) -> Value:
    return core.bits(INFINITY, "f") if kind == "f" else core.bits(SIGN - 1, kind)


def fold(
    start: Number | Callable[[Core, str], Value],
    step: Callable[[Core, Value, Value], Value],
    finish: Callable[[Context], Callable[[Value], Value]] = lambda c: lambda total: total,
    kind: str = "",
) -> Body:
    """out = finish(step(...step(step(start, x0), x1)...)). kind: of the total, with elements as they are stored; by
    default both are numbers of the compute dtype."""

    def body(c: Context) -> None:
        core, x = c.core, c.inputs[0]
        finished = finish(c)
        with over_kept(c, x, c.outputs[0], x) as (out, line):
            first = start(core, c.compute) if callable(start) else _number(c, start, kind or c.compute)
            read = x.kind if kind else ""
            total = core.fold(line.each(), first, lambda total, element: step(core, total, c.read(element, read)))
            out.store(finished(total))

    return body


def _number(c: Context, value: Number, kind: str) -> Value:
    """Of this kind, or FP32. Sums of truth values are integers."""
    if isinstance(value, float):
        kind = "f"
    return c.core.constant(value, "i" if kind == "b" and not isinstance(value, bool) else kind)


def _mean(c: Context) -> Callable[[Value], Value]:
    x = c.inputs[0]
    reduced = x.permuted([d for d in range(x.rank) if c.parameter("reduced") >> d & 1])
    n = c.core.convert(reduced.count(), "f")
    return lambda total: total / n


def _or_zero(core: Core, x: Value) -> Value:
    """0 for a NaN."""
    return core.select(core.is_nan(x), 0.0, x) if x.kind == "f" else x


routine.update(
    {
        "reduce.sum": fold(0, lambda core, a, x: a + x),
        "reduce.nansum": fold(0, lambda core, a, x: a + _or_zero(core, x)),
        "reduce.mean": fold(0.0, lambda core, a, x: a + x, _mean),
        "reduce.prod": fold(1, lambda core, a, x: a * x),
        "reduce.amax": fold(lowest, maximum),
        "reduce.amin": fold(highest, minimum),
        "reduce.any": fold(False, lambda core, a, x: a | core.nonzero(x), kind="b"),
        "reduce.all": fold(True, lambda core, a, x: a & core.nonzero(x), kind="b"),
        "reduce.count_nonzero": fold(0, lambda core, a, x: a + core.nonzero(x), kind="l"),
        "reduce.norm1": fold(0.0, lambda core, a, x: a + core.magnitude(x)),
        "reduce.norm2": fold(0.0, lambda core, a, x: a + x * x, lambda c: partial(f.square_root, c.core)),
        "reduce.norm_inf": fold(0.0, lambda core, a, x: maximum(core, a, core.magnitude(x))),
    }
)


@routine("reduce.logsumexp")
def logsumexp(c: Context) -> None:
    core, x = c.core, c.inputs[0]
    with over_kept(c, x, c.outputs[0], x) as (out, line):
        most = core.fold(line.each(), lowest(core, "f"), lambda most, element: maximum(core, most, c.read(element)))
        finite = core.magnitude(most) < core.bits(INFINITY, "f")
        base = core.select(finite | core.is_nan(most), most, 0.0)
        sums = core.fold(line.each(), 0.0, lambda sums, element: sums + f.exp(core, c.read(element) - base), "f")
        out.store(base + f.log_e(core, sums))


@routine("reduce.var", "reduce.var_mean")
@routine("reduce.std", root=True)
def moments(c: Context, root: bool = False) -> None:
    """var, std and var_mean, in two passes."""
    core, x = c.core, c.inputs[0]
    with over_kept(c, x, *c.outputs, x) as (*outputs, line):
        n = core.convert(line.count(), "f")
        center, spread = mean_and_squares(c, line, n)
        divisor = maximum(core, n - float(c.parameter("correction")), core.constant(0.0, "f"))
        value = spread / divisor
        if root:
            value = f.square_root(core, value)
        for out, result in zip(outputs, (value, center)):
            out.store(result)


def mean_and_squares(c: Context, x: Tensor, n: Value) -> tuple[Value, Value]:
    """The mean, and the sum of squared differences from it."""
    core = c.core
    center = core.fold(x.each(), 0.0, lambda total, element: total + c.read(element, "f"), "f") / n

    def add(squares: Value, element: Tensor) -> Value:
        difference = c.read(element, "f") - center
        return squares + difference * difference

    return center, core.fold(x.each(), 0.0, add, "f")


@routine("reduce.argmax", "reduce.max_dim", largest=True)
@routine("reduce.argmin", "reduce.min_dim", largest=False)
def extreme(c: Context, largest: bool) -> None:
    """argmax, argmin, max_dim and min_dim: the first one, and a NaN before all."""
    core, x = c.core, c.inputs[0]
    with over_kept(c, x, *c.outputs, x) as (*values, indices, line):
        best = core.variable(c.read(line))
        place_of, number = core.variable(0), core.variable(0)
        with line.each() as (element,):
            value = c.read(element)
            better = value > best if largest else value < best
            if value.kind == "f":
                better = (better | core.is_nan(value)) & ~core.is_nan(best)
            with core.when(better):
                best.set(value)
                place_of.set(number)
            number.set(number + 1)
        for out in values:
            out.store(best)
        indices.store(place_of)


# -- scans -------------------------------------------------------------------------------------------------------------
def scan(start: Number, step: Callable[[Core, Value, Value], Value]) -> Body:
    def body(c: Context) -> None:
        (out,), (x,) = c.outputs, c.inputs
        with x.lines(c.parameter("dim"), out, x) as (target, source):
            total = c.core.variable(_number(c, start, "f" if out.kind == "f" else "l"))
            with source.each(target, source) as (result, element):
                total.set(step(c.core, total, c.read(element, total.kind)))
                result.store(total)

    return body


def _log_sum(core: Core, a: Value, x: Value) -> Value:
    larger = maximum(core, a, x)
    total = larger + f.log1p(core, f.exp(core, minimum(core, a, x) - larger))
    return core.select(core.magnitude(larger).equals(core.bits(INFINITY, "f")), larger, total)


routine.update(
    {
        "cumsum": scan(0, lambda core, a, x: a + x),
        "cumprod": scan(1, lambda core, a, x: a * x),
        "logcumsumexp": scan(-inf, _log_sum),
    }
)


@routine("cummax", largest=True)
@routine("cummin", largest=False)
def running_extreme(c: Context, largest: bool) -> None:
    """cummax and cummin: the last of equal ones, and a NaN stays."""
    core, x = c.core, c.inputs[0]
    with x.lines(c.parameter("dim"), *c.outputs, x) as (*outputs, line):
        best, place_of, number = core.variable(c.read(line)), core.variable(0), core.variable(0)
        with line.each(*outputs, line) as (values, indices, element):
            value = c.read(element)
            better = value >= best if largest else value <= best
            if value.kind == "f":
                better = (better & ~core.is_nan(best)) | core.is_nan(value)
            with core.when(better):
                best.set(value)
                place_of.set(number)
            values.store(best)
            indices.store(place_of)
            number.set(number + 1)
