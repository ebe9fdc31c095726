# SPDX-License-Identifier: BSD-3-Clause
"""Sorting, selecting and searching along a dimension. NaN is the largest value."""

from __future__ import annotations

from functools import partial

from ..kernels.pointwise import Unsupported
from .memory import Tensor
from .reductions import lines
from .routine import Context
from .values import SIGN, Value


def key(c: Context, x: Value) -> Value:
    """An integer in the order of the values: the bits of a float, with all but the sign turned where it is negative. -0
    counts as 0."""
    if x.kind != "f":
        return x.as_kind("i")
    core = c.core
    bits = core.select(core.nonzero(x), x, 0.0).as_kind("i")
    ordered = core.select(bits < 0, bits ^ core.bits(SIGN - 1), bits)
    return core.select(core.is_nan(x), core.bits(SIGN - 1), ordered)


def first_of(c: Context, better: bool, a: Value, b: Value) -> Value:
    """Whether key a comes strictly before key b; better: the largest come first."""
    return a > b if better else a < b


def select_sorted(c: Context, all_of_them: bool) -> None:
    """topk, or of its elements the last one (kthvalue): k passes over the line, each of which finds the next one in
    (key, position) order."""
    core, x = c.core, c.inputs[0]
    values, indices = c.outputs
    dim, k = c.parameter("dim"), c.parameter("k")
    largest = all_of_them and c.parameter("largest")
    tensors = [t for t in (values, indices, x) if t is not None]
    with lines(x, dim, tensors) as places:
        at = dict(zip(map(id, tensors), places))
        v, i = (at.get(id(t)) for t in (values, indices))
        v, i = (None if place is None else core.variable(place) for place in (v, i))
        last_key, last = core.variable(0), core.variable(-1)  # of the element that was taken before
        with core.range(k) as rank:
            best_key, best, number = core.variable(0), core.variable(-1), core.variable(0)
            with x.each([dim], {x: at[id(x)]}) as (place,):
                here = key(c, x.load(place))
                after = first_of(c, largest, last_key, here) | (here.equals(last_key) & (number > last))
                wins = (last.equals(-1) | after) & (best.equals(-1) | first_of(c, largest, here, best_key))
                with core.when(wins):
                    best_key.set(here)
                    best.set(number)
                number.set(number + 1)
            last_key.set(best_key)
            last.set(best)
            wanted = core.bits(1, "b") if all_of_them else rank.equals(k - 1)
            with core.when(wanted):
                for tensor, place in ((values, v), (indices, i)):
                    if tensor is None or place is None:
                        continue
                    if tensor is values:
                        tensor.copy_element(place, x.at(at[id(x)], dim, best))
                    else:
                        tensor.store(place, best)
                    if all_of_them:
                        place.set(place + tensor.stride(dim))


def sort(c: Context) -> None:
    """By merging: the order of each line as positions, in runs of 1, 2, 4 and more that are sorted already. Stable.
    values and the input may be one only if there are no values to write."""
    core, x = c.core, c.inputs[0]
    values, indices = c.outputs
    dim = c.parameter("dim")
    if values is not None and {o.buffer for o in c.launch.reads()} & {o.buffer for o in c.launch.writes()}:
        raise Unsupported("sorting in place")
    count = c.launch.reads()[0].sizes[dim]
    order, other = c.scratch(count), c.scratch(count)
    tensors = [t for t in (values, indices, x) if t is not None]
    with lines(x, dim, tensors) as places:
        at = dict(zip(map(id, tensors), places))
        line, size = at[id(x)], x.size(dim)
        source, target, width = core.variable(order.start), core.variable(other.start), core.variable(1)
        with core.range(size) as number:
            order.store(order.at(source, 0, number), number)
        with core.repeat_while(lambda: width < size):
            begin = core.variable(0)
            with core.repeat_while(lambda: begin < size):
                middle = core.variable(core.select(begin + width < size, begin + width, size))
                end = core.variable(core.select(middle + width < size, middle + width, size))
                _merge(c, order, line, (source, target), begin, middle, end)
                begin.set(end)
            before = core.variable(source)
            source.set(target)
            target.set(before)
            width.set(width + width)
        with core.range(size) as rank:
            number = order.load(order.at(source, 0, rank))
            if values is not None:
                values.copy_element(values.at(at[id(values)], dim, rank), x.at(line, dim, number))
            if indices is not None:
                indices.store(indices.at(at[id(indices)], dim, rank), number)


def _merge(
    c: Context, order: Tensor, line: Value, buffers: tuple[Value, Value], begin: Value, middle: Value, end: Value
) -> None:
    """The runs begin ... middle and middle ... end of positions in `line`, from one buffer to the other; both have the
    form of `order`."""
    core, x, (source, target) = c.core, c.inputs[0], buffers
    dim, descending = c.parameter("dim"), c.parameter("descending")
    heads = []  # of both runs: its place, its end, the position in the line, and the key there
    for first, last in ((begin, middle), (middle, end)):
        heads.append((core.variable(first), last, core.variable(0), core.variable(0)))

    def load(place: Value, last: Value, number: Value, value: Value) -> None:
        with core.when(place < last):
            number.set(order.load(order.at(source, 0, place)))
            value.set(key(c, x.load(x.at(line, dim, number))))

    for head in heads:
        load(*head)
    (left, _, _, left_key), (right, _, _, right_key) = heads
    out = core.variable(order.at(target, 0, begin))
    with core.range(end - begin):
        takes_right = left.equals(middle) | ((right < end) & first_of(c, descending, right_key, left_key))
        for head, taken in zip(heads, (~takes_right, takes_right)):
            with core.when(taken):
                order.store(out, head[2])
                head[0].set(head[0] + 1)
                load(*head)
        out.set(out + order.stride(0))


def median(c: Context) -> None:
    """The lower median, by counting for each element how many come before it: smaller ones, and equal ones at earlier
    positions. The first NaN, if they count."""
    core, x = c.core, c.inputs[0]
    values, indices = c.outputs
    dim = c.parameter("dim")
    tensors = [t for t in (values, indices, x) if t is not None]
    with lines(x, dim, tensors) as places:
        at = dict(zip(map(id, tensors), places))
        size, is_nan = x.size(dim), core.variable(0)
        with x.each([dim], {x: at[id(x)]}) as (place,):
            value = x.load(place)
            if value.kind == "f":
                is_nan.set(is_nan + core.convert(core.is_nan(value), "i"))
        if c.parameter("ignore_nan"):
            rank = (size - is_nan - 1).shifted("sra.s", 1)
        else:
            rank = core.select(is_nan > 0, size - is_nan, (size - 1).shifted("sra.s", 1))
        best, number = core.variable(-1), core.variable(0)
        with x.each([dim], {x: at[id(x)]}) as (place,):
            mine = key(c, x.load(place))
            with core.when(_before(c, x, dim, at[id(x)], mine, number).equals(rank)):
                best.set(number)
            number.set(number + 1)
        best.set(core.select(best < 0, 0, best))  # all are NaN
        if values is not None:
            values.copy_element(at[id(values)], x.at(at[id(x)], dim, best))
        if indices is not None:
            indices.store(at[id(indices)], best)


def _before(c: Context, x: Tensor, dim: int, first: Value, mine: Value, number: Value) -> Value:
    """How many elements of a line come before the one with key `mine` at position `number`."""
    count, at = c.core.variable(0), c.core.variable(0)
    with x.each([dim], {x: first}) as (place,):
        theirs = key(c, x.load(place))
        earlier = (theirs < mine) | (theirs.equals(mine) & (at < number))
        count.set(count + c.core.convert(earlier, "i"))
        at.set(at + 1)
    return count


def _equal(c: Context, x: Tensor, dim: int, first: Value, mine: Value) -> Value:
    """How many elements of a line have the key `mine`."""
    count = c.core.variable(0)
    with x.each([dim], {x: first}) as (place,):
        count.set(count + c.core.convert(key(c, x.load(place)).equals(mine), "i"))
    return count


def mode(c: Context) -> None:
    """The smallest of the most frequent values, and its last position."""
    core, x = c.core, c.inputs[0]
    values, indices = c.outputs
    dim = c.parameter("dim")
    tensors = [t for t in (values, indices, x) if t is not None]
    with lines(x, dim, tensors) as places:
        at = dict(zip(map(id, tensors), places))
        best, most, best_key, number = core.variable(0), core.variable(0), core.variable(0), core.variable(0)
        with x.each([dim], {x: at[id(x)]}) as (place,):
            mine = key(c, x.load(place))
            same = _equal(c, x, dim, at[id(x)], mine)
            with core.when((same > most) | (same.equals(most) & (mine <= best_key))):
                for variable, value in ((best, number), (most, same), (best_key, mine)):
                    variable.set(value)
            number.set(number + 1)
        if values is not None:
            values.copy_element(at[id(values)], x.at(at[id(x)], dim, best))
        if indices is not None:
            indices.store(at[id(indices)], best)


def searchsorted(c: Context) -> None:
    """By bisection."""
    core = c.core
    (out,), (rows, values, sorter) = c.outputs, (*c.inputs, None)[:3]
    last = rows.rank - 1
    shared = rows.rank == 1
    dims = list(range(out.rank))
    moving = [out, values] + ([] if shared else [rows])
    outer = dims if shared else dims[:-1]
    with out.each(outer, moving) as places:
        row = rows.start if shared else places[2]
        inner = {out: places[0], values: places[1]}
        with out.each([] if shared else dims[-1:], inner) as (target, place):
            wanted = values.load(place)
            low, high = core.variable(0), core.variable(rows.size(last))
            with core.repeat_while(lambda: low < high):
                middle = (low + high).shifted("srl.s", 1)
                position = middle
                if sorter is not None:
                    position = sorter.load(sorter.at(sorter.start, sorter.rank - 1, middle)).as_kind("i")
                here = rows.load(rows.at(row, last, position))
                right = ~(here > wanted) if c.parameter("right") else ~(here >= wanted)
                low.set(core.select(right, middle + 1, low))
                high.set(core.select(right, high, middle))
            out.store(target, low)


def isin(c: Context) -> None:
    core = c.core
    (out,), (elements, members) = c.outputs, c.inputs
    with out.each(range(out.rank), [out, elements]) as (target, place):
        value, found = elements.load(place), core.variable(0)
        with members.each([0], [members]) as (member,):
            found.set(found | core.convert(value.equals(members.load(member)), "i"))
        result = found.as_kind("b")
        out.store(target, ~result if c.parameter("invert") else result)


def histogram(c: Context) -> None:
    """Of one dimension, by looking at each pair of edges; the last bin holds its upper edge."""
    core = c.core
    (out,), (points, weights, edges) = c.outputs, c.inputs
    if not isinstance(edges, Tensor) or out.rank != 1:
        raise Unsupported(f"a histogram of {out.rank} dimensions")
    count = core.variable(edges.size(0) - 1)
    with out.each([0], [out, edges]) as (target, edge):
        low, high = edges.load(edge), edges.load(edge + edges.stride(0))
        total = core.variable(0.0, "f")
        tensors = {points: points.start} | ({weights: weights.start} if weights is not None else {})
        with points.each([0], tensors) as places:
            x = core.convert(points.load(places[0]), "f")
            inside = (x >= low) & ((x < high) | (count.equals(1) & x.equals(high)))
            share = core.convert(weights.load(places[1]), "f") if weights is not None else core.constant(1.0, "f")
            total.set(total + core.select(inside, share, 0.0))
        out.store(target, total)
        count.set(count - 1)


ROUTINES = {
    "topk": partial(select_sorted, all_of_them=True), "kthvalue": partial(select_sorted, all_of_them=False),
    "sort": sort, "searchsorted": searchsorted, "isin": isin,
    "histogram": histogram, "median": median, "mode": mode,
}  # fmt: skip
