# SPDX-License-Identifier: BSD-3-Clause
"""Products, convolutions and attention of any dtype and layout, and products by groups."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf

from torch_atalla.driver import c_abi

from . import functions as f
from .formula_functions import maximum
from .memory import Tensor
from .positions import positions, within
from .reductions import NEGATIVE_INFINITY
from .routine import Context
from .values import Value


def activate(c: Context, x: Value, name: str) -> Value:
    core = c.core
    if name == "none":
        return x
    if name == "relu":
        return maximum(core, x, core.constant(0, x.kind))
    if name == "silu":
        return x * f.sigmoid(core, x)
    if name == "gelu_tanh":
        return x * 0.5 * (f.tanh(core, (x + x * x * x * 0.044715) * 0.7978845608028654) + 1.0)
    return x * 0.5 * (f.erf(core, x * 0.5**0.5) + 1.0)


def dot(c: Context, left: Tensor, right: Tensor, first: Value, second: Value, dims: tuple[int, int]) -> Value:
    """The sum of products along a dimension of each."""
    core, kind = c.core, c.compute
    total, there = core.variable(core.constant(0, kind)), core.variable(second)
    with left.each([dims[0]], {left: first}) as (here,):
        total.set(total + c.read(left, here, kind) * c.read(right, there, kind))
        there.set(there + right.stride(dims[1]))
    return total


def product(c: Context) -> None:
    (out,), (a, w, bias) = c.outputs, (*c.inputs, None)[:3]
    alpha, beta = c.parameter("alpha"), c.parameter("beta")
    with positions(out) as (batch, row, column):
        first, second = a.at(a.at(a.start, 0, batch), 1, row), w.at(w.at(w.start, 0, batch), 2, column)
        total = dot(c, a, w, first, second, (2, 1))
        total = total if alpha == 1 else total * alpha
        if bias is not None and beta != 0:
            place = bias.element([batch, row, column]) if isinstance(bias, Tensor) else None
            added = c.read(bias, place)
            total = total + (added if beta == 1 else added * beta)
        out.store(out.element([batch, row, column]), activate(c, total, c.parameter("activation")))


def grouped_product(c: Context) -> None:
    """Rows, columns or k in groups, whose ends are data."""
    core = c.core
    (out,), (a, w, ends) = c.outputs, c.inputs
    begin, group, last = core.variable(0), core.variable(0), core.variable(0)
    zero = core.constant(0.0, "f")
    limit = a.size(0) if w.rank == 3 else w.size(1) if a.rank == 3 else a.size(1)
    with ends.each([0], [ends]) as (place,):
        end = ends.load(place)
        core.fault_unless(~((end < begin) | (end > limit)), c_abi.ATALLA_ISA_FAULT_ELEMENT)
        if w.rank == 3:  # rows
            with core.range(end - begin) as i, core.range(out.size(1)) as j:
                row = begin + i
                first, second = a.at(a.start, 0, row), w.at(w.at(w.start, 0, group), 2, j)
                out.store(out.element([row, j]), dot(c, a, w, first, second, (1, 1)))
        elif a.rank == 3:  # columns
            with core.range(out.size(0)) as i, core.range(end - begin) as j:
                column = begin + j
                first, second = a.at(a.at(a.start, 0, group), 1, i), w.at(w.start, 1, column)
                out.store(out.element([i, column]), dot(c, a, w, first, second, (2, 0)))
        else:  # k
            with core.range(out.size(1)) as i, core.range(out.size(2)) as j:
                total = core.variable(zero)
                with core.range(end - begin) as k:
                    number = begin + k
                    total.set(total + a.load(a.element([i, number])) * w.load(w.element([number, j])))
                out.store(out.element([group, i, j]), total)
        begin.set(end)
        last.set(end)
        group.set(group + 1)
    if w.rank == 3:
        with core.range(out.size(0) - last) as i, core.range(out.size(1)) as j:
            out.store(out.element([last + i, j]), zero)
    elif a.rank == 3:
        with core.range(out.size(0)) as i, core.range(out.size(1) - last) as j:
            out.store(out.element([i, last + j]), zero)


def convolution(c: Context) -> None:
    """One to three spatial dimensions, any groups, strides, padding and dilation."""
    core = c.core
    (out,), (x, weight, bias, outside) = c.outputs, (*c.inputs, None, None)[:4]
    dims, groups = out.rank - 2, c.parameter("groups")
    stride, padding, dilation = ([int(n) for n in c.parameter(k)] for k in ("stride", "padding", "dilation"))
    per = core.divide(out.size(1), core.value(int(groups)))
    border = None if outside is None else c.read(outside, outside.start)
    with positions(out) as (image, channel, *here):
        total = core.variable(core.constant(0, c.compute))
        base = core.divide(channel, per) * weight.size(1)
        with ExitStack() as taps:
            numbers = [taps.enter_context(core.range(weight.size(2 + d))) for d in range(dims)]
            place, tap = x.at(x.start, 0, image), weight.at(weight.start, 0, channel)
            inside: Value | None = None
            for d, number in enumerate(numbers):
                at = here[d] * stride[d] + number * dilation[d] - padding[d]
                ok = within(core, at, x.size(2 + d))
                inside = ok if inside is None else inside & ok
                place, tap = x.at(place, 2 + d, at), weight.at(tap, 2 + d, number)
            assert inside is not None
            with core.when(inside):
                total.set(total + dot(c, weight, x, tap, x.at(place, 1, base), (1, 1)))
            if border is not None:
                with core.when(~inside), weight.each([1], {weight: tap}) as (at_weight,):
                    total.set(total + c.read(weight, at_weight, c.compute) * border)
        if bias is not None:
            total.set(total + c.read(bias, bias.at(bias.start, 0, channel)))
        out.store(out.element([image, channel, *here]), total)


def attention(c: Context) -> None:
    """Three passes over the keys of a query: the largest score, the sum of exponentials, and the values."""
    core = c.core
    out, logsumexp = (*c.outputs, None)[:2]
    q, k, v, mask = (*c.inputs, None)[:4]
    scale, causal = float(c.parameter("scale")), bool(c.parameter("causal"))
    per = core.divide(q.size(1), k.size(1))
    with positions(out, [0, 1, 2]) as (batch, head, row):
        query = q.element([batch, head, row, 0])
        shared = core.divide(head, per)
        keys, values = (t.at(t.at(t.start, 0, batch), 1, shared) for t in (k, v))

        def score(number: Value) -> Value:
            value = dot(c, q, k, query, k.at(keys, 2, number), (3, 3)) * scale
            if mask is not None:
                given = mask.load(mask.element([batch, head, row, number]))
                low = core.bits(NEGATIVE_INFINITY, "f")
                value = core.select(given, value, low) if mask.kind == "b" else value + given
            return core.select(number > row, core.bits(NEGATIVE_INFINITY, "f"), value) if causal else value

        most = core.variable(core.bits(NEGATIVE_INFINITY, "f"))
        with core.range(k.size(2)) as number:
            most.set(maximum(core, most, score(number)))
        empty = most.equals(core.bits(NEGATIVE_INFINITY, "f"))
        base = core.select(empty, 0.0, most)
        total = core.variable(0.0, "f")
        with core.range(k.size(2)) as number:
            total.set(total + f.exp(core, score(number) - base))
        factor = core.select(empty, 0.0, core.constant(1.0, "f") / total)
        with core.range(v.size(3)) as column:
            result = core.variable(0.0, "f")
            with core.range(k.size(2)) as number:
                weight = f.exp(core, score(number) - base)
                result.set(result + weight * v.load(v.at(v.at(values, 2, number), 3, column)))
            out.store(out.element([batch, head, row, column]), result * factor)
        if logsumexp is not None:
            logsumexp.store(logsumexp.element([batch, head, row]), base + f.log_e(core, total))


def _distance(c: Context, x: Tensor, first: Value, y: Tensor, second: Value) -> Value:
    """Of two rows."""
    core, p = c.core, float(c.parameter("p"))
    total, there = core.variable(0.0, "f"), core.variable(second)
    with x.each([x.rank - 1], {x: first}) as (here,):
        size = core.magnitude(x.load(here) - y.load(there))
        if p == 0:
            total.set(total + core.convert(core.nonzero(size), "f"))
        elif p == inf:
            total.set(maximum(core, total, size))
        elif p in (1.0, 2.0):
            total.set(total + (size * size if p == 2 else size))
        else:
            total.set(total + f.power(core, size, core.constant(p, "f")))
        there.set(there + y.stride(y.rank - 1))
    if p in (0.0, 1.0, inf):
        return total
    return f.square_root(core, total) if p == 2 else f.power(core, total, core.constant(1 / p, "f"))


def distances(c: Context) -> None:
    """cdist."""
    (out,), (x, y) = c.outputs, c.inputs
    with positions(out) as (batch, i, j):
        first, second = x.element([batch, i, 0]), y.element([batch, j, 0])
        out.store(out.element([batch, i, j]), _distance(c, x, first, y, second))


def pair_distances(c: Context) -> None:
    """pdist: of the pairs i < j of rows."""
    core = c.core
    (out,), (x,) = c.outputs, c.inputs
    target = core.variable(out.start)
    with positions(x, [0]) as (i,):
        with core.range(x.size(0) - 1 - i) as k:
            first, second = x.element([i, 0]), x.element([i + 1 + k, 0])
            out.store(target, _distance(c, x, first, x, second))
            target.set(target + out.stride(0))


ROUTINES = {
    "gemm": product, "gemm_grouped": grouped_product, "convolution": convolution, "attention": attention,
    "cdist": distances, "pdist": pair_distances,
}  # fmt: skip
