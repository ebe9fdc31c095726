# SPDX-License-Identifier: BSD-3-Clause
"""Reading and writing at computed indices."""

from __future__ import annotations

from collections.abc import Callable

from torch_atalla.driver import c_abi

from .formula_functions import maximum, minimum
from .memory import Tensor
from .routine import Context, routine
from .values import Value


def checked(c: Context, index: Value, size: Value, wraps: bool) -> Value:
    """The index as a position. wraps: negative ones count from the end. A position outside is a fault."""
    given = index.as_kind("i")
    place = c.core.select(given < 0, given + size, given) if wraps else given
    c.core.fault_unless(c.core.new("sltu.s", "b", place, size), c_abi.ATALLA_ISA_FAULT_INDEX, given, size)
    return place


@routine("index_select")
def index_select(c: Context) -> None:
    (out,), (x, index) = c.outputs, c.inputs
    dim = c.parameter("dim")
    if x.rank == 0:
        checked(c, index.load(), c.core.value(1), wraps=False)
        out.copy(x)
        return
    with index.each(out.permuted([dim, *(d for d in range(out.rank) if d != dim)]), index) as (line, number):
        source = x.select(dim, checked(c, number.load(), x.size(dim), wraps=False))
        with line.each(line, source) as (target, element):
            target.copy(element)


@routine("gather")
def gather(c: Context) -> None:
    (out,), (x, index) = c.outputs, c.inputs
    with out.lines(c.parameter("dim"), out, index, x) as (target, numbers, line):
        with target.each(target, numbers) as (result, number):
            result.copy(line[checked(c, number.load(), line.size(0), wraps=False)])


@routine("index")
def index(c: Context) -> None:
    """out [first..., shape..., rest...] = x [first..., indices..., rest...]."""
    (out,), (x, *given) = c.outputs, c.inputs
    walk(c, out, x, given, True, lambda target, source: target.copy(source))


def walk(
    c: Context, dense: Tensor, x: Tensor, given: list[Tensor], wraps: bool, move: Callable[[Tensor, Tensor], None]
) -> None:
    """Passes over the elements of `dense`, which has the index operands' shape where x has the indexed dimensions:
    move(element of dense, element of x)."""
    first, count = c.parameter("first_dim"), c.parameter("count")
    shape = given[0].rank
    shaped = range(first, first + shape)
    dense = dense.permuted([*shaped, *(d for d in range(dense.rank) if d not in shaped)])
    with dense.over(range(shape), dense, *given[:count]) as (block, *numbers):
        source = x
        for number in numbers:
            source = source.select(first, checked(c, number.load(), source.size(first), wraps))
        with block.each(block, source) as (element, there):
            move(element, there)


def combined(c: Context, target: Tensor, value: Value, combine: str) -> None:
    """Stores a value into an element by `combine` of the kernels' contracts."""
    kind = "i" if target.kind == "b" else target.kind
    value = c.core.convert(value, kind)
    if combine == "assign":
        target.store(value)
        return
    old = c.core.convert(target.load(), kind)
    result = {
        "add": lambda: old + value,
        "multiply": lambda: old * value,
        "maximum": lambda: maximum(c.core, old, value),
        "minimum": lambda: minimum(c.core, old, value),
    }[combine]()
    target.store(result)


@routine("index_put")
def index_put(c: Context) -> None:
    (out,), (source, *given) = c.outputs, c.inputs
    given = [x for x in given if isinstance(x, Tensor)]
    combine, factor = c.parameter("combine"), c.parameter("scale") if c.parameter("scaled") else None

    def move(element: Tensor, target: Tensor) -> None:
        if combine == "assign" and factor is None and source.form.dtype == out.form.dtype:
            target.copy(element)
            return
        value = element.load()
        combined(c, target, value if factor is None else value * factor, combine)

    walk(c, source, out, given, c.parameter("wrap_negative"), move)


@routine("scatter")
def scatter(c: Context) -> None:
    """In row-major order: the last of equal places stays."""
    (out,), (source, index) = c.outputs, c.inputs
    dim, combine = c.parameter("dim"), c.parameter("combine")
    with index.each(out.select(dim, 0).unsqueezed(dim), index, source) as (line, number, value):
        position = checked(c, number.load(), out.size(dim), wraps=False)
        given = value if isinstance(value, Value) else value.load()
        combined(c, out.moved_to(line.start).shifted(dim, position), given, combine)


@routine("embedding_bag")
def embedding_bag(c: Context) -> None:
    """Sums, means or maxima of rows, bag by bag."""
    core = c.core
    out, bag_of, bag_size, max_index = c.outputs
    table, indices, offsets, scale = (*c.inputs, None)[:4]
    mode, padding = c.parameter("mode"), c.parameter("padding_index")
    max_index = max_index if mode == "max" else None
    bag = core.variable(0)
    with out.over([0], out, offsets, bag_size, max_index) as (row, offset, size_of_bag, largest):
        begin = core.variable(offset.load().as_kind("i"))
        end = core.variable(indices.size(0))
        has_next = core.bits(1, "b") if c.parameter("has_end") else ~bag.equals(out.size(0) - 1)
        with core.when(has_next):
            end.set(offsets.moved_to(offset.start).shifted(0, 1).load().as_kind("i"))
        right = ~((begin < 0) | (end < begin) | (end > indices.size(0)))
        core.fault_unless(right, c_abi.ATALLA_ISA_FAULT_ELEMENT)
        with row.each(row, table.permuted([1, 0]), largest) as (target, column, position_of_largest):
            total, seen, best = core.variable(0.0, "f"), core.variable(0), core.variable(-1)
            with core.range(end - begin) as k:
                number = begin + k
                raw = indices[number].load().as_kind("i")
                position = checked(c, raw, table.size(0), wraps=False)
                value = column[position].load()
                if scale is not None:
                    value = value * scale[number].load()
                counts = ~position.equals(padding) if padding >= 0 else core.bits(1, "b")
                if mode == "max":
                    better = counts & (seen.equals(0) | (value > total) | core.is_nan(value))
                    with core.when(better):
                        total.set(value)
                        best.set(position)
                else:
                    total.set(core.select(counts, total + value, total))
                seen.set(seen + core.convert(counts, "i"))
                if bag_of is not None:
                    bag_of[number].store(bag)
            result = total
            if mode == "mean":
                result = total / core.convert(maximum(core, seen, core.bits(1)), "f")
            target.store(result)
            if position_of_largest is not None:  # 0 for a bag without elements
                position_of_largest.store(core.select(best < 0, 0, best))
            if size_of_bag is not None:
                size_of_bag.store(seen)
        bag.set(bag + 1)


@routine("repeat_interleave")
def repeat_interleave(c: Context) -> None:
    (out,), (ends,) = c.outputs, c.inputs
    number, group = c.core.variable(0), c.core.variable(0)
    with ends.each() as (place,):
        end = place.load().as_kind("i")
        with c.core.repeat_while(lambda: number < end):
            out[number].store(group)
            number.set(number + 1)
        group.set(group + 1)
