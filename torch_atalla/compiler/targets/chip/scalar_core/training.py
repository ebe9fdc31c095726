# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of pooling and padding, which add to the places that the forward pass took, and steps of optimizers."""

from __future__ import annotations

from math import log

from . import functions as f
from .formula import maximum
from .images import SPATIAL, divisor, windows
from .memory import Tensor
from .positions import PADDINGS, positions, within
from .routine import Context
from .values import Core, Value


def _clear(c: Context, x: Tensor) -> None:
    zero = c.core.constant(0, x.kind)
    with x.each(range(x.rank), [x]) as (place,):
        x.store(place, zero)


def _add(c: Context, x: Tensor, place: Value, value: Value) -> None:
    x.store(place, x.load(place) + value)


def pool_scatter(c: Context) -> None:
    """Indices count the places of a plane. Where its lines follow one another, an index needs no division."""
    core = c.core
    (out,), (x, indices) = c.outputs, c.inputs
    _clear(c, out)
    height, width = out.size(3), out.size(4)
    area = height * width
    step = out.stride(4)
    even = (out.stride(3).equals(width * step) | height.equals(1)) & (
        out.stride(2).equals(area * step) | out.size(2).equals(1)
    )
    count = area * out.size(2)
    with x.each([0, 1], [out, x, indices]) as (plane, values, numbers):
        with x.each(SPATIAL, {x: values, indices: numbers}) as (place, number):
            index = indices.load(number).as_kind("i")
            core.fault_unless(within(core, index, count))
            target = core.variable(plane + index * step)
            with core.when(~even):
                row = core.divide(index, width)
                depth = core.divide(row, height)
                column, line = index - row * width, row - depth * height
                target.set(out.at(out.at(out.at(plane, 2, depth), 3, line), 4, column))
            value = x.load(place)
            if c.parameter("add"):
                _add(c, out, target, value)
            else:
                out.store(target, value)


def pool_average_backward(c: Context) -> None:
    core = c.core
    (grad,), (x,) = c.outputs, c.inputs
    _clear(c, grad)
    with positions(x) as (n, channel, *here):
        firsts, lengths = windows(c, grad, x, here)
        plane = grad.at(grad.at(grad.start, 0, n), 1, channel)
        begins, counts = [], []
        for first, length, dim in zip(firsts, lengths, SPATIAL):
            begin = core.select(first < 0, 0, first)
            end, size = first + length, grad.size(dim)
            begins.append(begin)
            counts.append(core.select(end < size, end, size) - begin)
        seen = counts[0] * counts[1] * counts[2]
        share = x.load(x.element([n, channel, *here])) / core.convert(divisor(c, grad, firsts, lengths, seen), "f")
        with core.range(counts[0]) as i, core.range(counts[1]) as j, core.range(counts[2]) as k:
            place = plane
            for dim, begin, number in zip(SPATIAL, begins, (i, j, k)):
                place = grad.at(place, dim, begin + number)
            _add(c, grad, place, share)


def pad_backward(c: Context) -> None:
    (grad,), (x,) = c.outputs, c.inputs
    source = PADDINGS[c.launch.kernel.removeprefix("pad_backward.")]
    _clear(c, grad)
    with positions(x) as here:
        there = [source(c, grad, dim, index) for dim, index in enumerate(here)]
        _add(c, grad, grad.element(there), x.load(x.element(here)))


# -- optimizers --------------------------------------------------------------------------------------------------------
def _single(c: Context, number: int, absent: float) -> Value:
    """The value of a one-element operand."""
    given = c.inputs[number] if number < len(c.inputs) else None
    return c.core.constant(absent, "f") if given is None else c.core.convert(c.read(given, _start(given), "f"), "f")


def _start(given: Tensor | Value) -> Value | None:
    return given.start if isinstance(given, Tensor) else None


def _raised(core: Core, base: float, step: Value) -> Value:
    """1 - base^step, without cancellation."""
    return -f.expm1(core, step * log(base)) if base > 0 else core.constant(1.0, "f")


def optimizer(c: Context) -> None:
    """One step in place; nothing where an infinity was found."""
    core = c.core
    parameter, gradient, *states = c.outputs
    rate, scale = _single(c, 1, float(c.parameter("learning_rate"))), c.inputs[2]
    rule = {"adam": _adam, "sgd": _sgd, "adagrad": _adagrad}[c.launch.kernel.removeprefix("optimizer.")]
    tensors = [x for x in (parameter, gradient, *states) if x is not None]
    found = _single(c, 3, 0.0)
    with core.when(~core.nonzero(found)):
        factor = None if scale is None else core.constant(1.0, "f") / _single(c, 2, 1.0)
        step = rule(c, rate)
        with parameter.each(range(parameter.rank), tensors) as places:
            here = dict(zip(map(id, tensors), places))
            old = parameter.load(here[id(parameter)])
            slope = gradient.load(here[id(gradient)])
            if factor is not None:
                slope = slope * factor
                gradient.store(here[id(gradient)], slope)
            slope = -slope if c.parameter("maximize") else slope
            held = [x.load(here[id(x)]) if x is not None else None for x in states]
            new, kept = step(old, slope, held)
            parameter.store(here[id(parameter)], new)
            for state, value in zip(states, kept):
                if state is not None and value is not None:
                    state.store(here[id(state)], value)


def _decayed(c: Context, value: Value, slope: Value) -> Value:
    decay = float(c.parameter("weight_decay"))
    return slope + value * decay if decay else slope


def _adam(c: Context, rate: Value):  # type: ignore[no-untyped-def]
    core = c.core
    first, second = (float(beta) for beta in c.parameter("betas"))
    count, eps, decay = _single(c, 0, 1.0), float(c.parameter("eps")), float(c.parameter("weight_decay"))
    size = rate / _raised(core, first, count)
    root = core.new("rcp.bf", "f", f.square_root(core, _raised(core, second, count)))
    shrink = 1.0 - rate * decay

    def step(value: Value, slope: Value, held: list[Value | None]) -> tuple[Value, list[Value | None]]:
        average, square, most = held
        assert average is not None and square is not None
        if c.parameter("decoupled"):
            value = value * shrink
        else:
            slope = _decayed(c, value, slope)
        average = average * first + slope * (1 - first)
        square = square * second + slope * slope * (1 - second)
        most = None if most is None else maximum(core, most, square)
        spread = f.square_root(core, square if most is None else most) * root + eps
        return value - size * average / spread, [average, square, most]

    return step


def _sgd(c: Context, rate: Value):  # type: ignore[no-untyped-def]
    momentum, first = float(c.parameter("momentum")), bool(c.parameter("first_step"))

    def step(value: Value, slope: Value, held: list[Value | None]) -> tuple[Value, list[Value | None]]:
        slope, buffer = _decayed(c, value, slope), held[0]
        if buffer is None or momentum == 0:
            return value - slope * rate, [None]
        buffer = slope if first else buffer * momentum + slope * (1 - float(c.parameter("dampening")))
        return value - (slope + buffer * momentum if c.parameter("nesterov") else buffer) * rate, [buffer]

    return step


def _adagrad(c: Context, rate: Value):  # type: ignore[no-untyped-def]
    core = c.core
    size = rate / ((_single(c, 0, 1.0) - 1.0) * float(c.parameter("learning_rate_decay")) + 1.0)

    def step(value: Value, slope: Value, held: list[Value | None]) -> tuple[Value, list[Value | None]]:
        slope = _decayed(c, value, slope)
        assert held[0] is not None
        total = held[0] + slope * slope
        return value - size * slope / (f.square_root(core, total) + float(c.parameter("eps"))), [total]

    return step


ROUTINES = {
    "pool.scatter": pool_scatter,
    **dict.fromkeys(("pool_backward.average", "pool_backward.adaptive_average"), pool_average_backward),
    **dict.fromkeys(("pad_backward.reflect", "pad_backward.replicate"), pad_backward),
    **dict.fromkeys(("optimizer.adam", "optimizer.sgd", "optimizer.adagrad"), optimizer),
}
