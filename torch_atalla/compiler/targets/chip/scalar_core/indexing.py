# SPDX-License-Identifier: BSD-3-Clause
"""Reading and writing at computed indices."""

from __future__ import annotations

from collections.abc import Callable

from torch_atalla.driver import c_abi

from .formula_functions import maximum, minimum
from .memory import Tensor
from .routine import Context
from .values import Value


def checked(c: Context, index: Value, size: Value, wraps: bool) -> Value:
    """The index as a position. wraps: negative ones count from the end. A position outside is a fault."""
    given = index.as_kind("i")
    place = c.core.select(given < 0, given + size, given) if wraps else given
    c.core.fault_unless(c.core.new("sltu.s", "b", place, size), c_abi.ATALLA_ISA_FAULT_INDEX, given, size)
    return place


def index_select(c: Context) -> None:
    (out,), (x, index) = c.outputs, c.inputs
    dim = c.parameter("dim")
    if x.rank == 0:
        checked(c, index.load(index.start), c.core.value(1), wraps=False)
        out.copy_element(out.start, x.start)
        return
    line = c.core.variable(out.start)
    with index.each([0], [index]) as (numbers,):
        position = checked(c, index.load(numbers), x.size(dim), wraps=False)
        others = [d for d in range(out.rank) if d != dim]
        with out.each(others, {out: line, x: x.at(x.start, dim, position)}) as (target, source):
            out.copy_element(target, source)
        line.set(line + out.stride(dim))


def gather(c: Context) -> None:
    (out,), (x, index) = c.outputs, c.inputs
    dim = c.parameter("dim")
    others = [d for d in range(out.rank) if d != dim]
    with out.each(others, [out, index, x]) as (target, numbers, line):
        with out.each([dim], {out: target, index: numbers}) as (o, i):
            position = checked(c, index.load(i), x.size(dim), wraps=False)
            out.copy_element(o, x.at(line, dim, position))


def index(c: Context) -> None:
    """out [first..., shape..., rest...] = x [first..., indices..., rest...]."""
    (out,), (x, *given) = c.outputs, c.inputs
    walk(c, out, x, given, True, lambda o, p: out.copy_element(o, p))


def walk(
    c: Context, dense: Tensor, x: Tensor, given: list[Tensor], wraps: bool, move: Callable[[Value, Value], None]
) -> None:
    """Passes over the elements of `dense`, which has the index operands' shape where x has the indexed dimensions:
    move(place in dense, place in x)."""
    first, count = c.parameter("first_dim"), c.parameter("count")
    indices = given[:count]
    shape = indices[0].rank
    shaped = [first + d for d in range(shape)]
    others = [(d, d if d < first else d - shape + count) for d in range(dense.rank) if d not in shaped]
    core = c.core

    def level(number: int, place: Value, numbers: list[Value]) -> None:
        """The dimensions of the indices, then the others."""
        if number == shape:
            start = x.start
            for k, (operand, where) in enumerate(zip(indices, numbers)):
                position = checked(c, operand.load(where), x.size(first + k), wraps)
                start = x.at(start, first + k, position)
            inner(0, place, start)
            return
        mine = [core.variable(place), *map(core.variable, numbers)]
        with dense.loop(first + number):
            level(number + 1, mine[0], mine[1:])
            for variable, step in zip(mine, [dense.stride(first + number), *(i.stride(number) for i in indices)]):
                core.b.emit("add.s", variable.reg, variable.reg, step.reg)

    def inner(number: int, place: Value, source: Value) -> None:
        if number == len(others):
            move(place, source)
            return
        in_dense, in_x = others[number]
        mine = core.variable(place), core.variable(source)
        with dense.loop(in_dense):
            inner(number + 1, *mine)
            for variable, step in zip(mine, (dense.stride(in_dense), x.stride(in_x))):
                core.b.emit("add.s", variable.reg, variable.reg, step.reg)

    level(0, dense.start, [i.start for i in indices])


def combined(c: Context, out: Tensor, place: Value, value: Value, combine: str) -> None:
    """Stores a value into an element by `combine` of the kernels' contracts."""
    kind = "i" if out.kind == "b" else out.kind
    value = c.core.convert(value, kind)
    if combine == "assign":
        out.store(place, value)
        return
    old = c.core.convert(out.load(place), kind)
    result = {
        "add": lambda: old + value,
        "multiply": lambda: old * value,
        "maximum": lambda: maximum(c.core, old, value),
        "minimum": lambda: minimum(c.core, old, value),
    }[combine]()
    out.store(place, result)


def index_put(c: Context) -> None:
    (out,), (source, *given) = c.outputs, c.inputs
    given = [x for x in given if isinstance(x, Tensor)]
    combine, factor = c.parameter("combine"), c.parameter("scale") if c.parameter("scaled") else None

    def move(place: Value, target: Value) -> None:
        if combine == "assign" and factor is None and source.form.dtype == out.form.dtype:
            out.copy_element(target, place)
            return
        value = source.load(place)
        combined(c, out, target, value if factor is None else value * factor, combine)

    walk(c, source, out, given, c.parameter("wrap_negative"), move)


def scatter(c: Context) -> None:
    (out,), (source, index) = c.outputs, c.inputs
    dim, combine = c.parameter("dim"), c.parameter("combine")
    # In row-major order: the last of equal places stays.
    core = c.core

    def level(number: int, target: Value, numbers: Value, place: Value | None) -> None:
        if number == index.rank:
            position = checked(c, index.load(numbers), out.size(dim), wraps=False)
            value = source if isinstance(source, Value) else source.load(place)  # type: ignore[arg-type]
            combined(c, out, out.at(target, dim, position), value, combine)
            return
        tensors = [(out, target), (index, numbers), (source, place)]
        moving = [(x, core.variable(p)) for x, p in tensors if isinstance(x, Tensor) and p is not None]
        with index.loop(number):
            at = dict((id(x), p) for x, p in moving)
            level(number + 1, at[id(out)], at[id(index)], at.get(id(source)))
            for x, p in moving:
                if not (x is out and number == dim):
                    core.b.emit("add.s", p.reg, p.reg, x.stride(number).reg)

    level(0, out.start, index.start, source.start if isinstance(source, Tensor) else None)


def embedding_bag(c: Context) -> None:
    """Sums, means or maxima of rows, bag by bag."""
    core = c.core
    out, bag_of, bag_size, max_index = c.outputs
    table, indices, offsets, scale = (*c.inputs, None)[:4]
    mode, padding = c.parameter("mode"), c.parameter("padding_index")
    bag = core.variable(0)
    with out.each([0], {out: out.start, offsets: offsets.start}) as (row, offset):
        begin = core.variable(offsets.load(offset).as_kind("i"))
        end = core.variable(indices.size(0))
        is_last = bag.equals(out.size(0) - 1)
        if c.parameter("has_end"):
            end.set(offsets.load(offset + offsets.stride(0)).as_kind("i"))
        else:
            with core.when(~is_last):
                end.set(offsets.load(offset + offsets.stride(0)).as_kind("i"))
        right = ~((begin < 0) | (end < begin) | (end > indices.size(0)))
        core.fault_unless(right, c_abi.ATALLA_ISA_FAULT_ELEMENT)
        column = core.variable(0)
        with out.each([1], {out: row}) as (target,):
            total, seen, best = core.variable(0.0, "f"), core.variable(0), core.variable(-1)
            with core.range(end - begin) as k:
                number = begin + k
                raw = indices.load(indices.at(indices.start, 0, number)).as_kind("i")
                position = checked(c, raw, table.size(0), wraps=False)
                value = table.load(table.element([position, column]))
                if scale is not None:
                    value = value * scale.load(scale.at(scale.start, 0, number))
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
                    bag_of.store(bag_of.at(bag_of.start, 0, number), bag)
            result = total
            if mode == "mean":
                result = total / core.convert(maximum(core, seen, core.bits(1)), "f")
            out.store(target, result)
            if max_index is not None:  # 0 for a bag without elements
                max_index.store(max_index.element([bag, column]), core.select(best < 0, 0, best))
            if bag_size is not None:
                bag_size.store(bag_size.at(bag_size.start, 0, bag), seen)
            column.set(column + 1)
        bag.set(bag + 1)


def repeat_interleave(c: Context) -> None:
    (out,), (ends,) = c.outputs, c.inputs
    number, group = c.core.variable(0), c.core.variable(0)
    with ends.each([0], [ends]) as (place,):
        end = ends.load(place).as_kind("i")
        with c.core.repeat_while(lambda: number < end):
            out.store(out.at(out.start, 0, number), group)
            number.set(number + 1)
        group.set(group + 1)


ROUTINES = {
    "index_select": index_select, "gather": gather, "index": index, "index_put": index_put, "scatter": scatter,
    "embedding_bag": embedding_bag, "repeat_interleave": repeat_interleave,
}  # fmt: skip
