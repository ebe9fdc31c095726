# SPDX-License-Identifier: BSD-3-Clause
"""Steps of a tile program, and their encoding as the words that csrc/sim/kernels/tile/tile_decode.cpp reads."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator

import torch

from ...driver.dtypes import CODES
from .step_types import MARK, VERSION, ArgumentWords, Arithmetic, Exp, HeaderWords, ValueWords
from .words import Step

ALIGNMENT = 64
LOOP_MULTIPLE = 16  # elements that a vectorised loop may touch at once

STORED = {
    "i1": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "ptr": torch.int64,
    "f8E4M3FN": torch.int8, "f8E5M2": torch.int8, "f8E4M3FNUZ": torch.int8, "f8E5M2FNUZ": torch.int8,
}  # fmt: skip
FLOAT8 = {"f8E4M3FN": "e4m3fn", "f8E5M2": "e5m2", "f8E4M3FNUZ": "e4m3fnuz", "f8E5M2FNUZ": "e5m2fnuz"}


@dataclasses.dataclass
class Argument:
    """A value that the launch gives: of a tensor, its address; of a number, its bits."""

    value: int
    position: int  # among the function's arguments


@dataclasses.dataclass
class TileProgram:
    """All that a launch needs but its arguments. `slots` are dtype and number of elements of each value."""

    name: str
    slots: list[tuple[torch.dtype, int]]
    steps: list[Step]
    arguments: list[Argument]
    texts: list[str]
    sequential: bool  # instances run one after the other
    reads_addresses: bool  # addresses come from memory
    written: set[int]  # arguments that the program may write, by position

    def encode(self) -> list[int]:
        """Words with arguments that are still 0: those of `ArgumentWords` each, from word argument_offset() on."""
        offsets, total = self._place()
        texts = bytearray(self.name.encode() + b"\0")
        places = []
        for text in self.texts:
            places.append(len(texts))
            texts += text.encode() + b"\0"
        size = len(texts)
        texts += b"\0" * (-size % 8)
        flat = list(_flat(self.steps))
        header = HeaderWords(
            MARK, VERSION, len(self.slots), len(flat), total, len(self.arguments), int(self.sequential), size,
            len(texts) // 8, 0,
        )  # fmt: skip
        words = [*header.numbers(), *struct.unpack(f"<{len(texts) // 8}q", bytes(texts))]
        for (dtype, count), offset in zip(self.slots, offsets, strict=True):
            words += ValueWords(CODES[dtype] | (1 if offset is None else count) << 8, offset or 0).numbers()
        for argument in self.arguments:
            words += ArgumentWords(argument.value, -1, 0).numbers()
        for step in flat:
            numbers = [*step.numbers(places), *(sum(inner.steps() for inner in body) for body in step.bodies)]
            words += [step.number | len(numbers) << 16, *numbers]
        return words

    def argument_offset(self) -> int:
        size = len(self.name.encode()) + 1 + sum(len(text.encode()) + 1 for text in self.texts)
        return len(HeaderWords.kinds) + (size + 7) // 8 + len(ValueWords.kinds) * len(self.slots)

    def _place(self) -> tuple[list[int | None], int]:
        """A place for each value, so that those that are needed at the same time do not overlap."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        sources: dict[int, list[int]] = {}  # of values that may be written over one of them
        loops: list[tuple[int, int]] = []
        position = 0

        def walk(steps: list[Step]) -> None:
            nonlocal position
            for step in steps:
                start = position
                position += 1
                if isinstance(step, (Arithmetic, Exp)) and step.out not in first:  # they read an element, then write it
                    sources[step.out] = step.read
                for value in step.values:
                    first.setdefault(value, start)
                    last[value] = start
                for body in step.bodies:
                    walk(body)
                if step.bodies:
                    for value in step.values:  # a condition is read after its steps
                        last[value] = max(last[value], position)
                    if step.repeats:
                        loops.append((start, position))
                position += 1

        walk(self.steps)
        for argument in self.arguments:  # set once for all instances
            first[argument.value], last[argument.value] = -1, position
        for start, end in sorted(loops, key=lambda loop: loop[1]):
            for value in first:
                if first[value] <= start <= last[value] < end:
                    last[value] = end
        return _offsets(self.slots, first, last, sources)


def _offsets(
    slots: list[tuple[torch.dtype, int]], first: dict[int, int], last: dict[int, int], sources: dict[int, list[int]]
) -> tuple[list[int | None], int]:
    def size(value: int) -> int:
        dtype, count = slots[value]
        room = -(-count // LOOP_MULTIPLE) * LOOP_MULTIPLE * dtype.itemsize
        return -(-room // ALIGNMENT) * ALIGNMENT

    def sized(value: int) -> tuple[int, int]:
        dtype, count = slots[value]
        return dtype.itemsize, count

    offsets: list[int | None] = [None] * len(slots)  # None: no step uses it
    active: list[tuple[int, int, int]] = []  # offset, end, last position
    total = ALIGNMENT
    for value in sorted(first, key=lambda v: first[v]):
        active = [entry for entry in active if entry[2] >= first[value]]
        need, at = size(value), 0
        for source in sources.get(value, ()):
            # The source's memory, which ends with the step that makes the value.
            dtype, count = slots[source]
            place = offsets[source]
            ends = last[source] == first[value] and count > 1 and (dtype.itemsize, count) == sized(value)
            if ends and place is not None and (place, place + need, last[source]) in active:
                active.remove((place, place + need, last[source]))
                at = place
                break
        else:
            for offset, end, _ in active:
                if offset - at >= need:
                    break
                at = max(at, end)
        offsets[value] = at
        active.append((at, at + need, last[value]))
        active.sort()
        total = max(total, at + need)
    return offsets, total


def _flat(steps: list[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for body in step.bodies:
            yield from _flat(body)
