# SPDX-License-Identifier: BSD-3-Clause
"""Sorting, selecting and searching along a dimension. NaN is the largest value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


class _Order:
    """The order of a line as positions, by merging runs of 1, 2, 4 and more that are sorted already. Stable."""

    def __init__(self, c: Context, x: Tensor, dim: int, descending: bool = False) -> None:
        self.c, self.x, self.dim, self.descending = c, x, dim, descending
        count = c.launch.reads()[0].sizes[dim]
        self.order, self.other = c.scratch(count), c.scratch(count)

    def sort(self, line: Value) -> Callable[[Value], Value]:
        """Sorts the line. Returns how to load the position of the element that has a rank."""
        core, order, size = self.c.core, self.order, self.x.size(self.dim)
        source, target, width = core.variable(order.start), core.variable(self.other.start), core.variable(1)
        with core.range(size) as number:
            order.store(order.at(source, 0, number), number)
        with core.repeat_while(lambda: width < size):
            begin = core.variable(0)
            with core.repeat_while(lambda: begin < size):
                middle = core.variable(core.select(begin + width < size, begin + width, size))
                end = core.variable(core.select(middle + width < size, middle + width, size))
                self._merge(line, source, target, begin, middle, end)
                begin.set(end)
            before = core.variable(source)
            source.set(target)
            target.set(before)
            width.set(width + width)
        return lambda rank: order.load(order.at(source, 0, rank))

    def key(self, line: Value, number: Value) -> Value:
        return key(self.c, self.x.load(self.x.at(line, self.dim, number)))

    def _merge(self, line: Value, source: Value, target: Value, begin: Value, middle: Value, end: Value) -> None:
        """The runs begin ... middle and middle ... end, from one buffer to the other."""
        c, core, order = self.c, self.c.core, self.order
        heads = []  # of both runs: its place, its end, the position in the line, and the key there
        for first, last in ((begin, middle), (middle, end)):
            heads.append((core.variable(first), last, core.variable(0), core.variable(0)))

        def load(place: Value, last: Value, number: Value, value: Value) -> None:
            with core.when(place < last):
                number.set(order.load(order.at(source, 0, place)))
                value.set(self.key(line, number))

        for head in heads:
            load(*head)
        (left, _, _, left_key), (right, _, _, right_key) = heads
        out = core.variable(order.at(target, 0, begin))
        with core.range(end - begin):
            takes_right = left.equals(middle) | ((right < end) & first_of(c, self.descending, right_key, left_key))
            for head, taken in zip(heads, (~takes_right, takes_right)):
                with core.when(taken):
                    order.store(out, head[2])
                    head[0].set(head[0] + 1)
                    load(*head)
            out.set(out + order.stride(0))


def sort(c: Context) -> None:
    """values and the input may be one only if there are no values to write."""
    _, values, _ = _operands(c)
    if values is not None and {o.buffer for o in c.launch.reads()} & {o.buffer for o in c.launch.writes()}:
        raise Unsupported("sorting in place")
    dim = c.parameter("dim")
    order = _Order(c, c.inputs[0], dim, c.parameter("descending"))
    with _selection(c) as (line, write):
        position = order.sort(line)
        with c.core.range(c.inputs[0].size(dim)) as rank:
            write(position(rank), rank)


def top(c: Context) -> None:
    _ranks(c, 0, c.parameter("k"), c.parameter("largest"))


def kth_value(c: Context) -> None:
    _ranks(c, c.parameter("k") - 1, 1, False)


def _operands(c: Context) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The input, values and indices."""
    values, indices = c.outputs
    return c.inputs[0], values, indices


@contextmanager
def _selection(c: Context) -> Iterator[tuple[Value, Callable[[Value, Value | int], None]]]:
    """For each line, its place, and how to write an element: its position, and where along the outputs it goes."""
    x, values, indices = _operands(c)
    dim, tensors = c.parameter("dim"), [t for t in (values, indices, x) if t is not None]
    with lines(x, dim, tensors) as places:
        at = dict(zip(map(id, tensors), places))

        def write(number: Value, place: Value | int) -> None:
            if values is not None:
                values.copy_element(values.at(at[id(values)], dim, place), x.at(at[id(x)], dim, number))
            if indices is not None:
                indices.store(indices.at(at[id(indices)], dim, place), number)

        yield at[id(x)], write


def _ranks(c: Context, first: int, count: int, descending: bool) -> None:
    """The elements of `count` ranks, from `first` on: after sorting, or, if that takes less, by passes over the line,
    each of which finds the next element in the order."""
    x, dim = c.inputs[0], c.parameter("dim")
    size = c.launch.reads()[0].sizes[dim]
    if first + count <= 2 * size.bit_length():
        _ranks_by_passes(c, first, count, descending)
        return
    order = _Order(c, x, dim, descending)
    with _selection(c) as (line, write):
        position = order.sort(line)
        with c.core.range(count) as rank:
            write(position(rank + first), rank)


def _ranks_by_passes(c: Context, first: int, count: int, descending: bool) -> None:
    core, x, dim = c.core, c.inputs[0], c.parameter("dim")
    with _selection(c) as (line, write):
        last_key, last = core.variable(0), core.variable(-1)  # of the element that was taken before
        with core.range(first + count) as rank:
            best_key, best, number = core.variable(0), core.variable(-1), core.variable(0)
            with x.each([dim], {x: line}) as (place,):
                here = key(c, x.load(place))
                after = first_of(c, descending, last_key, here) | (here.equals(last_key) & (number > last))
                wins = (last.equals(-1) | after) & (best.equals(-1) | first_of(c, descending, here, best_key))
                with core.when(wins):
                    best_key.set(here)
                    best.set(number)
                number.set(number + 1)
            last_key.set(best_key)
            last.set(best)
            with core.when(rank >= first):
                write(best, rank - first)


def median(c: Context) -> None:
    """The element at the middle of the stable order, of those that are no NaN; but the first NaN, if they count."""
    core, x, dim = c.core, c.inputs[0], c.parameter("dim")
    order = _Order(c, x, dim)
    with _selection(c) as (line, write):
        size, are_nan = x.size(dim), core.variable(0)
        with x.each([dim], {x: line}) as (place,):
            value = x.load(place)
            if value.kind == "f":
                are_nan.set(are_nan + core.convert(core.is_nan(value), "i"))
        if c.parameter("ignore_nan"):
            rank = (size - are_nan - 1).shifted("sra.s", 1)
        else:
            rank = core.select(are_nan > 0, size - are_nan, (size - 1).shifted("sra.s", 1))
        write(order.sort(line)(core.select(rank < 0, 0, rank)), 0)  # below 0: all are NaN


def mode(c: Context) -> None:
    """The smallest of the most frequent values, and its last position. A NaN equals nothing."""
    core, x, dim = c.core, c.inputs[0], c.parameter("dim")
    order = _Order(c, x, dim)
    with _selection(c) as (line, write):
        position = order.sort(line)
        best, most, run, before = core.variable(0), core.variable(0), core.variable(0), core.variable(0)
        with core.range(x.size(dim)) as rank:
            number = position(rank)
            value = x.load(x.at(line, dim, number))
            here = key(c, value)
            same = here.equals(before)
            if value.kind == "f":
                same = same & ~core.is_nan(value)
            run.set(core.select(same, run + 1, 1))  # the first run may count up from 0 as well
            before.set(here)
            with core.when(run > most):
                most.set(run)
                best.set(number)
        write(best, 0)


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
    "topk": top, "kthvalue": kth_value, "sort": sort, "median": median, "mode": mode,
    "searchsorted": searchsorted, "isin": isin, "histogram": histogram,
}  # fmt: skip
