# SPDX-License-Identifier: BSD-3-Clause
"""Products, convolutions and attention of any dtype and layout, and products by groups."""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce
from math import inf
from operator import and_

from torch_atalla.driver import c_abi

from . import functions as f
from .formula_functions import maximum
from .memory import Tensor
from .positions import positions, within
from .reductions import NEGATIVE_INFINITY
from .routine import Context, routine
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


def dot(c: Context, left: Tensor, right: Tensor) -> Value:
    """The sum of products of two lines."""
    total = c.core.variable(c.core.constant(0, c.compute))
    with left.each(left, right) as (a, b):
        total.set(total + c.read(a) * c.read(b))
    return total


@routine("gemm")
def product(c: Context) -> None:
    (out,), (a, w, bias) = c.outputs, (*c.inputs, None)[:3]
    alpha, beta = c.parameter("alpha"), c.parameter("beta")
    rows, columns = a.unsqueezed(2), w.permuted([0, 2, 1]).unsqueezed(1)
    with out.each(out, rows, columns, bias if beta != 0 else None) as (target, row, column, added):
        total = dot(c, row, column)
        total = total if alpha == 1 else total * alpha
        if added is not None:
            value = c.read(added)
            total = total + (value if beta == 1 else value * beta)
        target.store(activate(c, total, c.parameter("activation")))


@routine("gemm_grouped")
def grouped_product(c: Context) -> None:
    """Rows, columns or k in groups, whose ends are data."""
    core = c.core
    (out,), (a, w, ends) = c.outputs, c.inputs
    if a.rank == 3:  # columns: rows of the transposed product
        out, a, w = out.permuted([1, 0]), w.permuted([1, 0]), a.permuted([0, 2, 1])
    by_row = w.rank == 3
    begin, group = core.variable(0), core.variable(0)
    zero = core.constant(0.0, "f")
    limit = a.size(0 if by_row else 1)
    with ends.each() as (place,):
        end = place.load()
        core.fault_unless(~((end < begin) | (end > limit)), c_abi.ATALLA_ISA_FAULT_ELEMENT)
        if by_row:
            with core.range(end - begin) as i, core.range(out.size(1)) as j:
                row = begin + i
                total = dot(c, a[row], w[group].select(1, j))
                out[row, j].store(total)
        else:
            with core.range(out.size(1)) as i, core.range(out.size(2)) as j:
                total = core.variable(zero)
                with core.range(end - begin) as k:
                    number = begin + k
                    total.set(total + a[i, number].load() * w[number, j].load())
                out[group, i, j].store(total)
        begin.set(end)
        group.set(group + 1)
    if by_row:
        with core.range(out.size(0) - begin) as i, core.range(out.size(1)) as j:
            out[begin + i, j].store(zero)


@routine("convolution")
def convolution(c: Context) -> None:
    """One to three spatial dimensions, any groups, strides, padding and dilation."""
    core = c.core
    (out,), (x, weight, bias, outside) = c.outputs, (*c.inputs, None, None)[:4]
    dims, groups = out.rank - 2, c.parameter("groups")
    stride, padding, dilation = ([int(n) for n in c.parameter(k)] for k in ("stride", "padding", "dilation"))
    per = core.divide(out.size(1), core.value(int(groups)))
    border = None if outside is None else c.read(outside)
    with positions(out) as (image, channel, *here):
        total = core.variable(core.constant(0, c.compute))
        base = core.divide(channel, per) * weight.size(1)
        with ExitStack() as taps:
            numbers = [taps.enter_context(core.range(weight.size(2 + d))) for d in range(dims)]
            there = [o * s + k * d - p for o, s, k, d, p in zip(here, stride, numbers, dilation, padding)]
            inside = reduce(and_, (within(core, place, x.size(2 + d)) for d, place in enumerate(there)))
            place, tap = (t.permuted([*range(1, dims + 1), 0]) for t in (x[image], weight[channel]))
            tap = tap[numbers]
            with core.when(inside):
                total.set(total + dot(c, tap, place[there].shifted(0, base)))
            if border is not None:
                with core.when(~inside), tap.each() as (element,):
                    total.set(total + c.read(element) * border)
        if bias is not None:
            total.set(total + c.read(bias[channel]))
        out[image, channel, *here].store(total)


@routine("attention")
def attention(c: Context) -> None:
    """Three passes over the keys of a query: the largest score, the sum of exponentials, and the values."""
    core = c.core
    out, logsumexp = (*c.outputs, None)[:2]
    q, k, v, mask = (*c.inputs, None)[:4]
    scale, causal = float(c.parameter("scale")), bool(c.parameter("causal"))
    low = core.bits(NEGATIVE_INFINITY, "f")
    per = core.divide(q.size(1), k.size(1))
    with positions(out, [0, 1, 2]) as (batch, head, row):
        query = q[batch, head, row]
        shared = core.divide(head, per)
        keys, values = k[batch, shared], v[batch, shared]

        def score(number: Value) -> Value:
            value = dot(c, query, keys[number]) * scale
            if mask is not None:
                given = mask[batch, head, row, number].load()
                value = core.select(given, value, low) if mask.kind == "b" else value + given
            return core.select(number > row, low, value) if causal else value

        most = core.fold(core.range(k.size(2)), low, lambda most, number: maximum(core, most, score(number)))
        empty = most.equals(low)
        base = core.select(empty, 0.0, most)
        total = core.fold(core.range(k.size(2)), 0.0, lambda total, n: total + f.exp(core, score(n) - base), "f")
        factor = core.select(empty, 0.0, 1.0 / total)
        with core.range(v.size(3)) as column:
            result = core.variable(0.0, "f")
            with core.range(k.size(2)) as number:
                weight = f.exp(core, score(number) - base)
                result.set(result + weight * values[number, column].load())
            out[batch, head, row, column].store(result * factor)
        if logsumexp is not None:
            logsumexp[batch, head, row].store(base + f.log_e(core, total))


def _distance(c: Context, x: Tensor, y: Tensor) -> Value:
    """Of two lines."""
    core, p = c.core, float(c.parameter("p"))
    total = core.variable(0.0, "f")
    with x.each(x, y) as (a, b):
        size = core.magnitude(a.load() - b.load())
        if p == 0:
            total.set(total + core.convert(core.nonzero(size), "f"))
        elif p == inf:
            total.set(maximum(core, total, size))
        elif p in (1.0, 2.0):
            total.set(total + (size * size if p == 2 else size))
        else:
            total.set(total + f.power(core, size, core.constant(p, "f")))
    if p in (0.0, 1.0, inf):
        return total
    return f.square_root(core, total) if p == 2 else f.power(core, total, core.constant(1 / p, "f"))


@routine("cdist")
def distances(c: Context) -> None:
    """cdist."""
    (out,), (x, y) = c.outputs, c.inputs
    with out.each(out, x.unsqueezed(2), y.unsqueezed(1)) as (target, a, b):
        target.store(_distance(c, a, b))


@routine("pdist")
def pair_distances(c: Context) -> None:
    """pdist: of the pairs i < j of rows."""
    core = c.core
    (out,), (x,) = c.outputs, c.inputs
    target = core.variable(out.start)
    with positions(x, [0]) as (i,), core.range(x.size(0) - 1 - i) as k:
        out.moved_to(target).store(_distance(c, x[i], x[i + 1 + k]))
        target.set(target + out.stride(0))
