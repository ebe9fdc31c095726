# SPDX-License-Identifier: BSD-3-Clause
"""Sorting, selecting and searching along a dimension. NaN is the largest value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..kernels.pointwise import Unsupported
from .memory import Tensor
from .routine import Context, routine
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

    def __init__(self, c: Context, descending: bool = False) -> None:
        self.c, self.descending = c, descending
        count = c.launch.reads()[0].sizes[c.parameter("dim")]
        self.order, self.other = c.scratch(count), c.scratch(count)

    def sort(self, line: Tensor) -> Callable[[Value], Value]:
        """Sorts the line. Returns how to load the position of the element that has a rank."""
        core, order, size = self.c.core, self.order, line.size(0)
        source, target, width = core.variable(order.start), core.variable(self.other.start), core.variable(1)
        with core.range(size) as number:
            order.moved_to(source)[number].store(number)
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
        return lambda rank: order.moved_to(source)[rank].load()

    def _merge(self, line: Tensor, source: Value, target: Value, begin: Value, middle: Value, end: Value) -> None:
        """The runs begin ... middle and middle ... end, from one buffer to the other."""
        c, core, order = self.c, self.c.core, self.order
        heads = []  # of both runs: its place, its end, the position in the line, and the key there
        for first, last in ((begin, middle), (middle, end)):
            heads.append((core.variable(first), last, core.variable(0), core.variable(0)))

        def load(place: Value, last: Value, number: Value, value: Value) -> None:
            with core.when(place < last):
                number.set(order.moved_to(source)[place].load())
                value.set(key(c, line[number].load()))

        for head in heads:
            load(*head)
        (left, _, _, left_key), (right, _, _, right_key) = heads
        out = core.variable(order.moved_to(target)[begin].start)
        with core.range(end - begin):
            takes_right = left.equals(middle) | ((right < end) & first_of(c, self.descending, right_key, left_key))
            for head, taken in zip(heads, (~takes_right, takes_right)):
                with core.when(taken):
                    order.moved_to(out).store(head[2])
                    head[0].set(head[0] + 1)
                    load(*head)
            out.set(out + order.stride(0))


@routine("sort")
def sort(c: Context) -> None:
    """values and the input may be one only if there are no values to write."""
    if c.outputs[0] is not None and {o.buffer for o in c.launch.reads()} & {o.buffer for o in c.launch.writes()}:
        raise Unsupported("sorting in place")
    order = _Order(c, c.parameter("descending"))
    with _selection(c) as (line, write):
        position = order.sort(line)
        with c.core.range(line.size(0)) as rank:
            write(position(rank), rank)


@contextmanager
def _selection(c: Context) -> Iterator[tuple[Tensor, Callable[[Value, Value | int], None]]]:
    """Each line, and how to write an element: its position, and where along the outputs it goes."""
    x = c.inputs[0]
    with x.lines(c.parameter("dim"), *c.outputs, x) as (values, indices, line):

        def write(number: Value, place: Value | int) -> None:
            if values is not None:
                values[place].copy(line[number])
            if indices is not None:
                indices[place].store(number)

        yield line, write


def _ranks(c: Context, first: int, count: int, descending: bool) -> None:
    """The elements of `count` ranks, from `first` on: after sorting, or, if that takes less, by passes over the line,
    each of which finds the next element in the order."""
    size = c.launch.reads()[0].sizes[c.parameter("dim")]
    if first + count <= 2 * size.bit_length():
        _ranks_by_passes(c, first, count, descending)
        return
    order = _Order(c, descending)
    with _selection(c) as (line, write):
        position = order.sort(line)
        with c.core.range(count) as rank:
            write(position(rank + first), rank)


routine("topk")(lambda c: _ranks(c, 0, c.parameter("k"), c.parameter("largest")))
routine("kthvalue")(lambda c: _ranks(c, c.parameter("k") - 1, 1, False))


def _ranks_by_passes(c: Context, first: int, count: int, descending: bool) -> None:
    core = c.core
    with _selection(c) as (line, write):
        last_key, last = core.variable(0), core.variable(-1)  # of the element that was taken before
        with core.range(first + count) as rank:
            best_key, best, number = core.variable(0), core.variable(-1), core.variable(0)
            with line.each() as (element,):
                here = key(c, element.load())
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


@routine("median")
def median(c: Context) -> None:
    """The element at the middle of the stable order, of those that are no NaN; but the first NaN, if they count."""
    core = c.core
    order = _Order(c)
    with _selection(c) as (line, write):
        size, are_nan = line.size(0), core.variable(0)
        with line.each() as (element,):
            value = element.load()
            if value.kind == "f":
                are_nan.set(are_nan + core.convert(core.is_nan(value), "i"))
        if c.parameter("ignore_nan"):
            rank = (size - are_nan - 1).shifted("sra.s", 1)
        else:
            rank = core.select(are_nan > 0, size - are_nan, (size - 1).shifted("sra.s", 1))
        write(order.sort(line)(core.select(rank < 0, 0, rank)), 0)  # below 0: all are NaN


@routine("mode")
def mode(c: Context) -> None:
    """The smallest of the most frequent values, and its last position. A NaN equals nothing."""
    core = c.core
    order = _Order(c)
    with _selection(c) as (line, write):
        position = order.sort(line)
        best, most, run, before = core.variable(0), core.variable(0), core.variable(0), core.variable(0)
        with core.range(line.size(0)) as rank:
            number = position(rank)
            value = line[number].load()
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


@routine("searchsorted")
def searchsorted(c: Context) -> None:
    """By bisection."""
    core = c.core
    (out,), (rows, values, sorter) = c.outputs, (*c.inputs, None)[:3]
    outer = [] if rows.rank == 1 else range(out.rank - 1)  # one line for all, or one for each
    with out.over(outer, out, values, rows) as (targets, wanted_line, line):
        with targets.each(targets, wanted_line) as (target, element):
            wanted = element.load()
            low, high = core.variable(0), core.variable(line.size(0))
            with core.repeat_while(lambda: low < high):
                middle = (low + high).shifted("srl.s", 1)
                position = middle
                if sorter is not None:
                    position = sorter.select(sorter.rank - 1, middle).load().as_kind("i")
                here = line[position].load()
                right = ~(here > wanted) if c.parameter("right") else ~(here >= wanted)
                low.set(core.select(right, middle + 1, low))
                high.set(core.select(right, high, middle))
            target.store(low)


@routine("isin")
def isin(c: Context) -> None:
    core = c.core
    (out,), (elements, members) = c.outputs, c.inputs
    with out.each(out, elements) as (target, element):
        value = element.load()
        found = core.fold(members.each(), 0, lambda found, x: found | core.convert(value.equals(x.load()), "i"))
        result = found.as_kind("b")
        target.store(~result if c.parameter("invert") else result)


@routine("histogram")
def histogram(c: Context) -> None:
    """Of one dimension, by looking at each pair of edges; the last bin holds its upper edge."""
    core = c.core
    (out,), (points, weights, edges) = c.outputs, c.inputs
    if not isinstance(edges, Tensor) or out.rank != 1:
        raise Unsupported(f"a histogram of {out.rank} dimensions")
    count = core.variable(edges.size(0) - 1)
    with out.each(out, edges) as (target, edge):
        low, high = edge.load(), edges.moved_to(edge.start).shifted(0, 1).load()
        total = core.variable(0.0, "f")
        with points.over([0], points, weights) as (point, weight):
            x = core.convert(point.load(), "f")
            inside = (x >= low) & ((x < high) | (count.equals(1) & x.equals(high)))
            share = core.convert(weight.load(), "f") if weight is not None else core.constant(1.0, "f")
            total.set(total + core.select(inside, share, 0.0))
        target.store(total)
        count.set(count - 1)
