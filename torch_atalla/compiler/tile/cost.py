# SPDX-License-Identifier: BSD-3-Clause
"""What the launches of a tile program cost: instructions and bytes that the timing model charges.

Steps are counted as the chip's code would run them: a vector instruction for as many elements as the chip has lanes, a
row of the array for each tile of a product that fills it. Loops are counted by their bounds, which are computed from
the arguments and the program id; a loop whose end depends on data counts as one round. Of a large grid, SAMPLES
instances are counted for all.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..program.support import generated
from ..program.vector_program import step_table
from .steps import Step, TileProgram, signed_hash

SAMPLES = 8
ROW_STORE_WORDS = 10  # of a store of rows, whose numbers are words 8 and 9
MADE_STORE_WORDS = 9  # of a store that computes what it stores


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


@functools.cache
def _names(enum: str) -> dict[int, str]:
    return dict(enumerate(generated("kernel_enums.json", "table of enums")[enum]))


@functools.cache
def _formulas() -> dict[int, tuple[int, int]]:
    """Vector and exp instructions of the pointwise kernels by the hash of their name."""
    return {signed_hash(name): (kind.vector_ops, kind.exp_ops) for name, kind in step_table().items()}


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
        w = step.words
        if step.op in ("load", "store", "atomic", "compare_and_swap"):
            value = w[3] if step.op == "store" else w[0]
            count = self.size(value)
            if step.op == "store":  # one value may be for all places
                count = max(count, w[8] * w[9] if len(w) == ROW_STORE_WORDS else self.size(w[0 if w[1] < 0 else 1]))
            moved = count * self.program.slots[value][0].itemsize
            if step.op != "store":
                cost.bytes_read += moved
                self.known.pop(w[0], None)
            if step.op != "load":
                cost.bytes_written += moved
            cost.tiles += -(-count // self.chip.tile)
            cost.vector_ops += self.vectors(count) * (2 if step.op == "store" and len(w) == MADE_STORE_WORDS else 1)
        elif step.op == "dot":
            batch, m, n, k = w[4:8]
            passes = batch * -(-k // self.chip.rows) * -(-n // self.chip.columns)
            cost.macs += batch * m * n * k
            cost.array_rows += m * passes
            cost.weight_rows += self.chip.columns * passes
        elif step.op in ("reduce", "scan"):
            self._combination(step, cost)
        elif step.op == "loop":
            self._loop(step, cost)
        elif step.op == "while_loop":
            cost.add(self.steps(step.bodies[0]))
            cost.add(self.steps(step.bodies[1]))
        elif step.op == "branch":
            self._branch(step, cost)
        elif step.op not in ("require", "print"):
            self._elements(step, cost)

    def _elements(self, step: Step, cost: Cost) -> None:
        out = step.words[0]
        if self.size(out) == 1:
            cost.packets += 1
            self._scalar(step)
            return
        vectors = self.vectors(self.size(out))
        if step.op in ("formula", "exp"):
            formula = step.words[1] if step.op == "formula" else signed_hash("pointwise.exp")
            vector_ops, exp_ops = _formulas().get(formula, (1, 0))
            cost.vector_ops += vectors * (vector_ops + int(step.op == "exp" and len(step.words) > 2))
            cost.exp_ops += vectors * exp_ops
        else:
            cost.vector_ops += vectors

    def _scalar(self, step: Step) -> None:
        w, out = step.words, step.words[0]
        rule = _SCALAR.get(step.op)
        found = rule(self, w) if rule is not None else None
        if found is None:
            self.known.pop(out, None)
        else:
            self.known[out] = found

    def _combination(self, step: Step, cost: Cost) -> None:
        lanes, length = step.words[:2]
        rounds = max(length - 1, 1).bit_length()
        elements = lanes * length if step.op == "reduce" else lanes * length * rounds
        ops = sum(1 for inner in step.bodies[0] if inner.op not in ("copy", "fill"))
        cost.vector_ops += ops * self.vectors(elements)

    def _loop(self, step: Step, cost: Cost) -> None:
        first, bound, by = (self.known.get(v) for v in step.words[1:4])
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
            self._forget(step.bodies[0])
            if position is None:
                self.known.pop(step.words[0], None)
            else:
                self.known[step.words[0]] = position
            costs.append(self.steps(step.bodies[0]))
        for one in costs:
            cost.add(one, rounds / len(costs))
        self._forget(step.bodies[0])

    def _branch(self, step: Step, cost: Cost) -> None:
        condition = self.known.get(step.words[0])
        if condition is not None:
            cost.add(self.steps(step.bodies[0 if condition else 1]))
            return
        for body in step.bodies:
            cost.add(self.steps(body), 0.5)
            self._forget(body)

    def _forget(self, steps: list[Step]) -> None:
        """What steps write that may run another number of times."""
        for step in steps:
            if step.op not in ("store", "require", "print", "loop", "while_loop", "branch", "fill") and step.words:
                self.known.pop(step.words[0], None)
            for body in step.bodies:
                self._forget(body)


def _binary(counter: _Counter, w: list[int]) -> int | None:
    a, b = counter.known.get(w[1]), counter.known.get(w[2])
    kind = _names("TileArithmetic")[w[3]]
    f = _INTEGERS.get(kind)
    return None if a is None or b is None or f is None else f(a, b)


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


def _select(counter: _Counter, w: list[int]) -> int | None:
    condition = counter.known.get(w[1])
    return None if condition is None else counter.known.get(w[2] if condition else w[3])


_INTEGER_DTYPES = (torch.bool, torch.int8, torch.int16, torch.int32, torch.int64)


def _same(counter: _Counter, w: list[int]) -> int | None:
    is_integer = counter.program.slots[w[0]][0] in _INTEGER_DTYPES and counter.program.slots[w[1]][0] in _INTEGER_DTYPES
    return counter.known.get(w[1]) if is_integer and counter.size(w[1]) == 1 else None


_SCALAR: dict[str, Callable[[_Counter, list[int]], int | None]] = {
    "fill": lambda counter, w: w[1],
    "program_id": lambda counter, w: counter.instance[w[1]],
    "program_count": lambda counter, w: counter.grid[w[1]],
    "arithmetic": _binary,
    "select": _select,
    "convert": _same,
    "copy": _same,
}
