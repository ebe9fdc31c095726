# SPDX-License-Identifier: BSD-3-Clause
"""Code for the ops of a tile program, one after another, and which of its tiles are kept in a scratchpad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ....program.rules import Rules
from ....tile.ir import Block, Function, Op, Region, TileError, Value
from ..scalar_core.values import Value as Register
from . import scalars
from .values import Affine, Buffer, Element, Lazy, Mask, Table, Uniform, Wide
from .weights import Arrays

rule = RULES = Rules()  # functions of (Generator, Op), which give the results
TERMINATORS = ("tt.return", "scf.yield", "scf.condition")
GRID = ("grid_x", "grid_y", "grid_z")
ARENA, APART = "arena", "apart"  # words: room in DRAM; 1 if no tensor that is written overlaps one that is read
STAGE: list[Callable[[Generator, Element], Buffer]] = []  # rules/elements.py


class Generator(Arrays):
    def __init__(self, entry: Function, written: set[int] | None = None) -> None:
        """written: positions of the arguments through which the kernel writes; None if that is not known."""
        super().__init__(entry.name)
        self.written = written
        self.ahead: dict[Op, Any] = {}  # loads that bring in what the next pass of their loop reads
        self.makers: dict[Value, Op] = {}
        self.first_values: dict[Value, Value] = {}  # of what loops change
        self.entry = entry
        self.values: dict[Value, Any] = {}
        self.uses: dict[Value, list[tuple[Op, Block]]] = {}
        self.arena_bytes = 0
        self.program_ids: list[Register] = []
        self.needs: set[str] = set()  # of the array
        for block in entry.body.all_blocks():
            for op in block.ops:
                self._count_uses(op, block)
        self.only_ones = self.needs == {"ones"}

    def _count_uses(self, op: Op, block: Block) -> None:
        if op.name in ("tt.reduce", "tt.dot", "tt.trans"):
            flat = op.name == "tt.reduce" and len(op.operands[0].type.dims) == 1
            self.needs.add("ones" if flat else "units")
        self.makers.update(dict.fromkeys(op.results, op))
        if op.name == "scf.for":
            self.first_values.update(zip(op.regions[0].entry.arguments[1:], op.operands[3:], strict=True))
        for value in op.operands:
            self.uses.setdefault(value, []).append((op, block))

    # ---------------------------------------------------------------------------------------------------------- ops
    def argument(self, position: int, value: Value) -> Any:
        """What a launch gives: words `a<position>`."""
        element, name = value.type.element, f"a{position}"
        if element in ("f16", "f64"):
            raise TileError(f"argument {value} of {element}; expected float32 or bfloat16", self.entry.location)
        if element == "i64":
            return Wide(self.core.parameter(name), self.core.parameter(f"{name}_high"))
        return self.core.parameter(name, "f" if element in ("f32", "bf16") else "b" if element == "i1" else "i")

    def block(self, block: Block) -> Op:
        """All ops but the last, which it gives. TTIR prints no end that gives nothing."""
        for op in block.ops:
            if op.name in TERMINATORS:
                return op
            self.one(op)
        return Op("scf.yield", [], [], {}, [])

    def region(self, region: Region, op: Op) -> Op:
        if len(region.blocks) != 1:
            raise op.fail("a return inside of a branch; Atalla code has loops and branches that join again")
        return self.block(region.entry)

    def one(self, op: Op) -> None:
        found = RULES.get(op.name)
        if found is None:
            raise op.fail("Atalla code has no such operation")
        self.op = op
        if op.location is not None:
            self.b.line = op.location.line
        try:
            results = found(self, op)
        except TileError as error:
            if error.location is not None:
                raise
            raise TileError(f"{op.name}: {error.message}", op.location) from None
        for value, result in zip(op.results, results or (), strict=True):
            self.values[value] = self._kept(value, result)

    def of(self, value: Value) -> Any:
        return self.values[value]

    def _kept(self, value: Value, found: Any) -> Any:
        """A tile that costs something and is used several times, or in a loop or branch, is computed once."""
        uses = self.uses.get(value, [])
        if not isinstance(found, Lazy) or value.type.element == "i1" or not self.cost(found):
            return found
        mine = {id(block) for _, block in uses}
        if len(uses) > 1 or (mine and mine != {id(self.here)}):
            return self.materialise(found, self.lane_of(found))
        return found

    here: Block | None = None  # whose ops are generated

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Of code that may not run, or runs several times."""
        outer, self.here, self.held = self.here, block, ""
        self.scopes.append({})
        yield
        self.scopes.pop()
        self.held = ""
        self.here = outer

    # -------------------------------------------------------------------------------------------------------- values
    def compute(self, op: Op) -> Any:
        """The result of an operation on scalars, on tiles that are the same everywhere, or element by element."""
        arguments = [self.of(v) for v in op.operands]
        shape = op.results[0].type.shape
        if shape is None:
            return scalars.compute(self.core, op, arguments)
        plain = [number(x) for x in arguments]
        if all(x is not None for x in plain):
            return uniform(op, shape, scalars.compute(self.core, op, plain))
        if any(isinstance(x, Buffer | Lazy) for x in arguments):
            name = op.name
            return Lazy(shape, op, tuple(arguments), name)
        return Element(shape, op, tuple(arguments))

    def stage(self, x: Element) -> Buffer:
        return STAGE[0](self, x)

    def reserve(self, nbytes: int) -> Register:
        """The address of room in DRAM that belongs to the launch."""
        offset = self.arena_bytes
        self.arena_bytes += -(-nbytes // 64) * 64
        return scalars.add(self.core, self.core.parameter(ARENA), offset)


def number(x: Any) -> Any:
    """The scalar that a tile has everywhere; None for another tile."""
    if isinstance(x, Uniform):
        return x.value
    if isinstance(x, Affine):
        return None if x.terms else x.base
    return None if isinstance(x, Mask | Lazy | Buffer | Element | Table) else x


def uniform(op: Op, shape: tuple[int, ...], value: Any) -> Any:
    element = op.results[0].type.element
    if isinstance(value, Wide):
        value = value.low
    return Affine(shape, value) if element in ("i32", "i64", "i16", "i8", "ptr") else Uniform(shape, value)
