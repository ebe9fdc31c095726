# SPDX-License-Identifier: BSD-3-Clause
"""Reductions over any dimensions, and scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from . import functions as f
from .formula_functions import maximum, minimum
from .memory import Tensor
from .routine import Context
from .values import INFINITY, SIGN, Core, Value

NEGATIVE_INFINITY = INFINITY | SIGN


def split(c: Context, x: Tensor) -> tuple[list[int], list[int]]:
    """The dimensions that are reduced, and those that are kept."""
    mask = c.parameter("reduced")
    return [d for d in range(x.rank) if mask >> d & 1], [d for d in range(x.rank) if not mask >> d & 1]


def count(x: Tensor, dims: list[int]) -> Value:
    total = x.core.value(1)
    for dim in dims:
        total = total * x.size(dim)
    return total


def lowest(core: Core, kind: str) -> Value:
    return core.bits(NEGATIVE_INFINITY, "f") if kind == "f" else core.bits(SIGN, kind)


def highest(core: Core, kind: str) -> Value:
    return core.bits(INFINITY, "f") if kind == "f" else core.bits(SIGN - 1, kind)


Step = Callable[[Value, Value], Value]


def fold(c: Context, start: Value, step: Step, finish: Callable[[Value], Value] = lambda x: x, kind: str = "") -> None:
    """out = finish(step(...step(step(start, x0), x1)...)); kind: of the elements."""
    out, x = c.outputs[0], c.inputs[0]
    reduced, kept = split(c, x)
    with x.each(kept, [out, x]) as (target, first):
        total = c.core.variable(start)
        with x.each(reduced, {x: first}) as (place,):
            total.set(step(total, c.read(x, place, kind)))
        out.store(target, finish(total))


def _accumulated(c: Context) -> str:
    return "i" if c.compute == "b" else c.compute


def total(c: Context) -> None:
    fold(c, c.core.constant(0, _accumulated(c)), lambda a, x: a + x)


def nansum(c: Context) -> None:
    core = c.core
    skipped = (lambda x: core.select(core.is_nan(x), 0.0, x)) if _accumulated(c) == "f" else (lambda x: x)
    fold(c, core.constant(0, _accumulated(c)), lambda a, x: a + skipped(x))


def mean(c: Context) -> None:
    n = c.core.convert(count(c.inputs[0], split(c, c.inputs[0])[0]), "f")
    fold(c, c.core.constant(0, "f"), lambda a, x: a + x, lambda a: a / n)


def product(c: Context) -> None:
    fold(c, c.core.constant(1, _accumulated(c)), lambda a, x: a * x)


def largest(c: Context) -> None:
    fold(c, lowest(c.core, c.compute), lambda a, x: maximum(c.core, a, x))


def smallest(c: Context) -> None:
    fold(c, highest(c.core, c.compute), lambda a, x: minimum(c.core, a, x))


def any_of(c: Context) -> None:
    fold(c, c.core.bits(0, "b"), lambda a, x: a | _truth(c.core, x), kind=c.inputs[0].kind)


def all_of(c: Context) -> None:
    fold(c, c.core.bits(1, "b"), lambda a, x: a & _truth(c.core, x), kind=c.inputs[0].kind)


def _truth(core: Core, x: Value) -> Value:
    return core.nonzero(x)


def nonzeros(c: Context) -> None:
    fold(c, c.core.constant(0, "l"), lambda a, x: a + _truth(c.core, x), kind=c.inputs[0].kind)


def norm1(c: Context) -> None:
    fold(c, c.core.constant(0, "f"), lambda a, x: a + c.core.magnitude(x))


def norm2(c: Context) -> None:
    fold(c, c.core.constant(0, "f"), lambda a, x: a + x * x, lambda a: f.square_root(c.core, a))


def norm_inf(c: Context) -> None:
    fold(c, c.core.constant(0, "f"), lambda a, x: maximum(c.core, a, c.core.magnitude(x)))


def logsumexp(c: Context) -> None:
    out, x = c.outputs[0], c.inputs[0]
    reduced, kept = split(c, x)
    core = c.core
    with x.each(kept, [out, x]) as (target, first):
        most = core.variable(lowest(core, "f"))
        with x.each(reduced, {x: first}) as (place,):
            most.set(maximum(core, most, c.read(x, place)))
        finite = core.magnitude(most) < core.bits(INFINITY, "f")
        base = core.select(finite | core.is_nan(most), most, 0.0)
        sums = core.variable(0.0, "f")
        with x.each(reduced, {x: first}) as (place,):
            sums.set(sums + f.exp(core, c.read(x, place) - base))
        out.store(target, base + f.log_e(core, sums))


def moments(c: Context, root: bool = False) -> None:
    """var, std and var_mean, in two passes."""
    core, x = c.core, c.inputs[0]
    reduced, kept = split(c, x)
    with x.each(kept, [*c.outputs, x]) as (*targets, first):
        n = core.convert(count(x, reduced), "f")
        center, spread = mean_and_squares(c, x, reduced, first, n)
        divisor = maximum(core, n - float(c.parameter("correction")), core.constant(0.0, "f"))
        value = spread / divisor
        if root:
            value = f.square_root(core, value)
        for out, target, result in zip(c.outputs, targets, (value, center)):
            out.store(target, result)


def mean_and_squares(c: Context, x: Tensor, dims: list[int], first: Value, n: Value) -> tuple[Value, Value]:
    """The mean, and the sum of squared differences from it."""
    core = c.core
    total = core.variable(0.0, "f")
    with x.each(dims, {x: first}) as (place,):
        total.set(total + c.read(x, place, "f"))
    center = total / n
    squares = core.variable(0.0, "f")
    with x.each(dims, {x: first}) as (place,):
        difference = c.read(x, place, "f") - center
        squares.set(squares + difference * difference)
    return center, squares


def extreme(c: Context, largest: bool) -> None:
    """argmax, argmin, max_dim and min_dim: the first one, and a NaN before all."""
    core, x = c.core, c.inputs[0]
    reduced, kept = split(c, x)
    with x.each(kept, [*c.outputs, x]) as (*targets, first):
        best = core.variable(c.read(x, first))
        place_of, number = core.variable(0), core.variable(0)
        with x.each(reduced, {x: first}) as (place,):
            value = c.read(x, place)
            better = value > best if largest else value < best
            if value.kind == "f":
                better = (better | core.is_nan(value)) & ~core.is_nan(best)
            with core.when(better):
                best.set(value)
                place_of.set(number)
            number.set(number + 1)
        *values, indices = c.outputs
        for out, target in zip(values, targets):
            out.store(target, best)
        indices.store(targets[-1], place_of)


# -- scans -------------------------------------------------------------------------------------------------------------
@contextmanager
def lines(x: Tensor, dim: int, tensors: list[Tensor]) -> Iterator[list[Value]]:
    """The first elements of all lines along a dimension."""
    with x.each([d for d in range(x.rank) if d != dim], tensors) as places:
        yield places


def scan(
    start: Callable[[Context], Value], step: Callable[[Context, Value, Value], Value]
) -> Callable[[Context], None]:
    def body(c: Context) -> None:
        out, x = c.outputs[0], c.inputs[0]
        dim = c.parameter("dim")
        with lines(x, dim, [out, x]) as (target, source):
            total = c.core.variable(start(c))
            with x.each([dim], {out: target, x: source}) as (o, p):
                total.set(step(c, total, c.read(x, p, total.kind)))
                out.store(o, total)

    return body


def _scan_kind(c: Context) -> str:
    return "f" if c.outputs[0].kind == "f" else "l"


def _log_sum(c: Context, a: Value, x: Value) -> Value:
    core = c.core
    larger = maximum(core, a, x)
    total = larger + f.log1p(core, f.exp(core, minimum(core, a, x) - larger))
    return core.select(core.magnitude(larger).equals(core.bits(INFINITY, "f")), larger, total)


def running_extreme(c: Context, largest: bool) -> None:
    """cummax and cummin: the last of equal ones, and a NaN stays."""
    core, x = c.core, c.inputs[0]
    values, indices = c.outputs
    dim = c.parameter("dim")
    with lines(x, dim, [values, indices, x]) as (v, i, source):
        best, place_of, number = core.variable(c.read(x, source)), core.variable(0), core.variable(0)
        with x.each([dim], {values: v, indices: i, x: source}) as (v_here, i_here, place):
            value = c.read(x, place)
            better = value >= best if largest else value <= best
            if value.kind == "f":
                better = (better & ~core.is_nan(best)) | core.is_nan(value)
            with core.when(better):
                best.set(value)
                place_of.set(number)
            values.store(v_here, best)
            indices.store(i_here, place_of)
            number.set(number + 1)


ROUTINES = {
    "reduce.sum": total, "reduce.nansum": nansum, "reduce.mean": mean,
    "reduce.prod": product, "reduce.amax": largest, "reduce.amin": smallest,
    "reduce.any": any_of, "reduce.all": all_of, "reduce.count_nonzero": nonzeros, "reduce.norm1": norm1,
    "reduce.norm2": norm2, "reduce.norm_inf": norm_inf, "reduce.logsumexp": logsumexp, "reduce.var": moments,
    "reduce.std": partial(moments, root=True), "reduce.var_mean": moments,
    **{f"reduce.{name}": partial(extreme, largest=name in ("argmax", "max_dim"))
       for name in ("argmax", "argmin", "max_dim", "min_dim")},
    "cummax": partial(running_extreme, largest=True), "cummin": partial(running_extreme, largest=False),
    "cumsum": scan(lambda c: c.core.constant(0, _scan_kind(c)), lambda c, a, x: a + x),
    "cumprod": scan(lambda c: c.core.constant(1, _scan_kind(c)), lambda c, a, x: a * x),
    "logcumsumexp": scan(lambda c: c.core.bits(NEGATIVE_INFINITY, "f"), _log_sum),
}  # fmt: skip
