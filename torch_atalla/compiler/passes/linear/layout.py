# SPDX-License-Identifier: BSD-3-Clause
"""Operands seen under other sizes, and who touches which buffer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache

from ...program.ir import Buffer, BufferKind, LinearProgram, Operand
from ...program.layouts import are_numbers, merged


def is_static(operand: Operand) -> bool:
    """Whether sizes and strides are numbers, not expressions."""
    return all(type(number) is int for number in (operand.offset, *operand.sizes, *operand.strides))


def viewed_strides(sizes: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides under which the same elements have the sizes `target`, in the same order; None: there are none, or
    not for all values of expressions."""
    numbers = are_numbers(sizes, strides, target)
    return (_viewed_numbers if numbers else _viewed_strides)(sizes, strides, target)


def _viewed_strides(
    sizes: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]
) -> tuple[int, ...] | None:
    if 0 in sizes or 0 in target:
        return None
    pieces = list(merged(sizes, strides))
    result: list[int] = []
    left, stride = pieces.pop() if pieces else (1, 0)
    for size in reversed(target):
        if size == 1:
            result.append(0)
            continue
        if left == 1 and pieces:
            left, stride = pieces.pop()
        rest = left % size
        if type(rest) is not int or rest:
            return None
        result.append(stride)
        left, stride = left // size, stride * size
    return tuple(reversed(result)) if left == 1 and not pieces else None


_viewed_numbers = lru_cache(maxsize=4096)(_viewed_strides)


def with_sizes(operand: Operand, target: tuple[int, ...]) -> Operand | None:
    if operand.sizes == target:
        return operand
    strides = viewed_strides(operand.sizes, operand.strides, target)
    return None if strides is None else replace(operand, sizes=target, strides=strides)


def same_elements(a: Operand, b: Operand) -> bool:
    """The same memory in the same order, whatever the sizes are called."""
    return (a.buffer, a.offset, a.dtype) == (b.buffer, b.offset, b.dtype) and merged(a.sizes, a.strides) == merged(
        b.sizes, b.strides
    )


def contiguous_positions(operand: Operand) -> bool:
    """Whether what lies behind the channels of [n, c, spatial...] is contiguous memory."""
    expected = 1
    for size, stride in zip(reversed(operand.sizes[2:]), reversed(operand.strides[2:])):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


class Uses:
    """Which instructions read and write each buffer, in order."""

    def __init__(self, program: LinearProgram):
        self.program = program
        self.buffers: list[Buffer] = program.buffers
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.writers: dict[int, list[int]] = defaultdict(list)
        for i, inst in enumerate(program.instructions):
            for operand in inst.reads():
                if not self.readers[operand.buffer] or self.readers[operand.buffer][-1] != i:
                    self.readers[operand.buffer].append(i)
            for operand in inst.writes():
                if not self.writers[operand.buffer] or self.writers[operand.buffer][-1] != i:
                    self.writers[operand.buffer].append(i)

    def is_private(self, buffer: int) -> bool:
        """A temporary that one instruction writes: nobody outside of the program sees it."""
        return self.buffers[buffer].kind is BufferKind.TEMPORARY and len(self.writers[buffer]) == 1

    def may_move(self, i: int, to: int, members: Collection[int] = ()) -> bool:
        """Whether instruction i may run where a later one stands: in one segment, and if no instruction in between
        writes what it reads. members: those that move with it."""
        if self.program.segments[i] != self.program.segments[to]:
            return False
        writers = (writer for x in self.program.instructions[i].reads() for writer in self.writers[x.buffer])
        return not any(i < writer <= to and writer not in members for writer in writers)

    def see_all_of(self, out: Operand, readers: Iterable[int]) -> bool:
        """Whether each read of the buffer by these instructions sees the elements of `out` in their order: only then
        may a joined launch hand them on as values. A slice of them has to be read from memory."""
        return all(
            same_elements(out, operand)
            for reader in readers
            for operand in self.program.instructions[reader].reads()
            if operand.buffer == out.buffer
        )
