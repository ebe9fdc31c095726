# SPDX-License-Identifier: BSD-3-Clause
"""Steps of optimizers, as csrc/sim/kernels/training/optimizer.h has them, in FP32 between a load and a store."""

from __future__ import annotations

from collections.abc import Callable
from math import log

from . import functions as f
from .formula_functions import maximum
from .routine import Context, routine
from .values import Core, Value

State = Value | None
# From a parameter, its gradient and its states to the new parameter and the new states.
Rule = Callable[[Value, Value, list[State]], tuple[Value, list[State]]]


def _single(c: Context, number: int, absent: float) -> Value:
    """The value of a one-element operand."""
    given = c.inputs[number] if number < len(c.inputs) else None
    return c.core.constant(absent, "f") if given is None else c.read(given, "f")


def _raised(core: Core, base: float, step: Value) -> Value:
    """1 - base^step, without cancellation."""
    return -f.expm1(core, step * log(base)) if base > 0 else core.constant(1.0, "f")


def _decayed(c: Context, value: Value, slope: Value) -> Value:
    decay = float(c.parameter("weight_decay"))
    return slope + value * decay if decay else slope


def _adam(c: Context, rate: Value) -> Rule:
    core = c.core
    first, second = (float(beta) for beta in c.parameter("betas"))
    count, eps, decay = _single(c, 0, 1.0), float(c.parameter("eps")), float(c.parameter("weight_decay"))
    size = rate / _raised(core, first, count)
    root = f.inverse_root(core, _raised(core, second, count))
    shrink = 1.0 - rate * decay

    def step(value: Value, slope: Value, held: list[State]) -> tuple[Value, list[State]]:
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


def _sgd(c: Context, rate: Value) -> Rule:
    momentum, first = float(c.parameter("momentum")), bool(c.parameter("first_step"))

    def step(value: Value, slope: Value, held: list[State]) -> tuple[Value, list[State]]:
        slope, buffer = _decayed(c, value, slope), held[0]
        if buffer is None or momentum == 0:
            return value - slope * rate, [None]
        buffer = slope if first else buffer * momentum + slope * (1 - float(c.parameter("dampening")))
        return value - (slope + buffer * momentum if c.parameter("nesterov") else buffer) * rate, [buffer]

    return step


def _adagrad(c: Context, rate: Value) -> Rule:
    core = c.core
    size = rate / ((_single(c, 0, 1.0) - 1.0) * float(c.parameter("learning_rate_decay")) + 1.0)

    def step(value: Value, slope: Value, held: list[State]) -> tuple[Value, list[State]]:
        slope = _decayed(c, value, slope)
        assert held[0] is not None
        total = held[0] + slope * slope
        return value - size * slope / (f.square_root(core, total) + float(c.parameter("eps"))), [total]

    return step


@routine("optimizer.adam", rule=_adam)
@routine("optimizer.sgd", rule=_sgd)
@routine("optimizer.adagrad", rule=_adagrad)
def optimizer(c: Context, rule: Callable[[Context, Value], Rule]) -> None:
    """One step in place; nothing where an infinity was found."""
    core = c.core
    rate, scale = _single(c, 1, float(c.parameter("learning_rate"))), c.inputs[2]
    found = _single(c, 3, 0.0)
    with core.when(~core.nonzero(found)):
        factor = None if scale is None else 1.0 / _single(c, 2, 1.0)
        step = rule(c, rate)
        with c.outputs[0].each(*c.outputs) as (parameter, gradient, *states):
            old, slope = parameter.load(), gradient.load()
            if factor is not None:
                slope = slope * factor
                gradient.store(slope)
            slope = -slope if c.parameter("maximize") else slope
            new, kept = step(old, slope, [None if x is None else x.load() for x in states])
            parameter.store(new)
            for state, value in zip(states, kept):
                if state is not None and value is not None:
                    state.store(value)
