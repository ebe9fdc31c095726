# SPDX-License-Identifier: BSD-3-Clause
"""What the launches of a tile program cost: instructions and bytes that the roofline charges.

Steps are counted as the chip's code would run them: a vector instruction for as many elements as the chip has lanes, a
row of the array for each tile of a product that fills it. Loops are counted by their bounds, which are computed from
the arguments and the program id; a loop whose end depends on data counts as one round. Of a large grid, SAMPLES
instances are counted for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import step_types as kinds
from .steps import TileProgram
from .words import Step

SAMPLES = 8


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Of the chip: elements of a vector and of the largest tile that one transfer moves, and the array's sides."""

    lanes: int
    tile: int
    rows: int
    columns: int

    @staticmethod
    def of(config: dict[str, Any]) -> Geometry:
        """`config`: the parameters of a chip file, by section and name."""

        def value(section: str, name: str) -> int:
            return int(config[section][name]["value"])

        tile = value("sdma", "tile_rows") * value("sdma", "tile_columns")
        return Geometry(value("vector", "lanes"), tile, value("array", "rows"), value("array", "columns"))


@dataclasses.dataclass
class Cost:
    """In the order of the kernel's parameters."""

    vector_ops: float = 0
    exp_ops: float = 0
    macs: float = 0
    array_rows: float = 0
    weight_rows: float = 0
    packets: float = 0
    tiles: float = 0
    bytes_read: float = 0
    bytes_written: float = 0

    def add(self, other: Cost, times: float = 1) -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + times * getattr(other, field.name))

    def words(self) -> list[int]:
        return [round(getattr(self, field.name)) for field in dataclasses.fields(self)]


def cost_of(program: TileProgram, arguments: dict[int, int], grid: Sequence[int], chip: Geometry) -> list[int]:
    """Of all instances. `arguments`: the integers among the arguments, by value."""
    total = Cost()
    count = grid[0] * grid[1] * grid[2]
    if count == 0:
        return total.words()
    samples = range(count) if count <= SAMPLES else [i * (count - 1) // (SAMPLES - 1) for i in range(SAMPLES)]
    for i in samples:
        instance = (i % grid[0], i // grid[0] % grid[1], i // (grid[0] * grid[1]))
        total.add(_Counter(program, dict(arguments), instance, grid, chip).steps(program.steps), count / len(samples))
    return total.words()


class _Counter:
    """Counts the steps of one instance, and computes its integers as far as they do not depend on data."""

    def __init__(
        self,
        program: TileProgram,
        known: dict[int, int],
        instance: Sequence[int],
        grid: Sequence[int],
        chip: Geometry,
    ) -> None:
        self.program = program
        self.known = known
        self.instance, self.grid = instance, grid
        self.chip = chip

    def vectors(self, n: int) -> int:
        return -(-n // self.chip.lanes)

    def size(self, value: int) -> int:
        return self.program.slots[value][1]

    def bytes(self, value: int) -> int:
        dtype, count = self.program.slots[value]
        return int(dtype.itemsize) * count

    def steps(self, steps: list[Step]) -> Cost:
        cost = Cost()
        for step in steps:
            self.step(step, cost)
        return cost

    def step(self, step: Step, cost: Cost) -> None:
        if isinstance(step, (kinds.Load, kinds.Store, kinds.Atomic, kinds.CompareAndSwap)):
            self._access(step, cost)
        elif isinstance(step, kinds.Dot):
            passes = step.batches * -(-step.k // self.chip.rows) * -(-step.n // self.chip.columns)
            cost.macs += step.batches * step.m * step.n * step.k
            cost.array_rows += step.m * passes
            cost.weight_rows += self.chip.columns * passes
        elif isinstance(step, (kinds.Reduce, kinds.Scan)):
            self._combination(step, cost)
        elif isinstance(step, kinds.Loop):
            self._loop(step, cost)
        elif isinstance(step, kinds.WhileLoop):
            cost.add(self.steps(step.test))
            cost.add(self.steps(step.body))
        elif isinstance(step, kinds.Branch):
            self._branch(step, cost)
        elif not isinstance(step, (kinds.Require, kinds.Print)):
            self._elements(step, cost)

    def _access(self, step: kinds.Load | kinds.Store | kinds.Atomic | kinds.CompareAndSwap, cost: Cost) -> None:
        value = step.stored if isinstance(step, kinds.Store) else step.out
        count = self.size(value)
        if isinstance(step, kinds.Store):  # one value may be for all places
            places = self.size(step.base if step.offsets < 0 else step.offsets)
            count = max(count, places if step.rows is None else step.rows.rows * step.rows.columns)
        moved = count * self.program.slots[value][0].itemsize
        if not isinstance(step, kinds.Store):
            cost.bytes_read += moved
            self.known.pop(value, None)
        if not isinstance(step, kinds.Load):
            cost.bytes_written += moved
        cost.tiles += -(-count // self.chip.tile)
        cost.vector_ops += self.vectors(count) * (2 if isinstance(step, kinds.Store) and step.made is not None else 1)

    def _elements(self, step: Step, cost: Cost) -> None:
        out = step.values[0]
        if self.size(out) == 1:
            cost.packets += 1
            self._scalar(step, out)
            return
        vectors = self.vectors(self.size(out))
        if not isinstance(step, kinds.Exp):
            cost.vector_ops += vectors
            return
        cost.exp_ops += vectors
        if step.shifted is not None:
            cost.vector_ops += vectors

    def _scalar(self, step: Step, out: int) -> None:
        found = self._integer(step)
        if found is None:
            self.known.pop(out, None)
        else:
            self.known[out] = found

    def _integer(self, step: Step) -> int | None:
        """What a step computes, if it is an integer that does not depend on data."""
        if isinstance(step, kinds.Fill):
            return step.bits
        if isinstance(step, kinds.ProgramId):
            return self.instance[step.dimension]
        if isinstance(step, kinds.ProgramCount):
            return self.grid[step.dimension]
        if isinstance(step, kinds.Arithmetic):
            a, b, f = self.known.get(step.a), self.known.get(step.b), _INTEGERS.get(step.kind)
            return None if a is None or b is None or f is None else f(a, b)
        if isinstance(step, kinds.Select):
            condition = self.known.get(step.condition)
            return None if condition is None else self.known.get(step.a if condition else step.b)
        if isinstance(step, (kinds.Convert, kinds.Copy)):
            dtypes = [self.program.slots[value][0] for value in (step.out, step.source)]
            are_integers = all(dtype in _INTEGER_DTYPES for dtype in dtypes)
            return self.known.get(step.source) if are_integers and self.size(step.source) == 1 else None
        return None

    def _combination(self, step: kinds.Reduce | kinds.Scan, cost: Cost) -> None:
        rounds = max(step.length - 1, 1).bit_length()
        elements = step.lanes * step.length * (1 if isinstance(step, kinds.Reduce) else rounds)
        ops = sum(1 for inner in step.combination if not isinstance(inner, (kinds.Copy, kinds.Fill)))
        cost.vector_ops += ops * self.vectors(elements)

    def _loop(self, step: kinds.Loop, cost: Cost) -> None:
        first, bound, by = (self.known.get(v) for v in (step.first, step.bound, step.step))
        rounds: float = 1
        if first is not None and bound is not None and by is not None and by > 0:
            rounds = max(0, -(-(bound - first) // by))
        if rounds == 0:
            return
        kept = dict(self.known)
        costs = []
        at = {first, None if first is None or by is None else first + int(rounds - 1) * by}
        for position in at:  # the first and the last round, which stand for those between
            self.known = dict(kept)
            self._forget(step.body)
            if position is None:
                self.known.pop(step.index, None)
            else:
                self.known[step.index] = position
            costs.append(self.steps(step.body))
        for one in costs:
            cost.add(one, rounds / len(costs))
        self._forget(step.body)

    def _branch(self, step: kinds.Branch, cost: Cost) -> None:
        condition = self.known.get(step.condition)
        if condition is not None:
            cost.add(self.steps(step.taken if condition else step.otherwise))
            return
        for body in step.bodies:
            cost.add(self.steps(body), 0.5)
            self._forget(body)

    def _forget(self, steps: list[Step]) -> None:
        """What steps write that may run another number of times."""
        for step in steps:
            if not isinstance(step, kinds.Fill):
                for value in step.ids("out", "state"):
                    self.known.pop(value, None)
            for body in step.bodies:
                self._forget(body)


def _divide(a: int, b: int) -> int:
    return -1 if b == 0 else int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": _divide,
    "rem": lambda a, b: a - b * _divide(a, b) if b else a, "min": min, "max": max, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b), "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b), "shl": lambda a, b: a << b if 0 <= b < 64 else 0,
    "shr": lambda a, b: a >> b if 0 <= b < 64 else 0,
}  # fmt: skip


_INTEGER_DTYPES = (torch.bool, torch.int8, torch.int16, torch.int32, torch.int64)
