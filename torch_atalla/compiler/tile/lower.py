# SPDX-License-Identifier: BSD-3-Clause
"""From a function of the IR to the steps of a tile program."""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Sequence

from ...driver.dtypes import CODES
from ..program.ir import contiguous_strides
from ..program.rules import Rules
from ..program.vector_program import kernel_hash
from . import arithmetic
from .fuse import fused
from .ir import WIDTHS, Block, Function, Op, Region, TileError, Type, Value
from .provenance import written_arguments
from .step_types import Arithmetic, Branch, Convert, Copy, Fill, Formula, FromFloat8, Select, ToFloat8, View
from .steps import FLOAT8, STORED, Argument, TileProgram
from .words import Step

HALF = ("f16", "bf16")


@dataclasses.dataclass(frozen=True)
class Tile:
    """Where a value of the IR stands. `one`: all its elements are the same, and one is stored."""

    id: int
    type: Type
    one: bool = False

    @property
    def stored(self) -> int:
        return 1 if self.one else self.type.count


@dataclasses.dataclass(frozen=True)
class Places:
    """Addresses of a tile as one base and offsets, which count elements of `scale` bytes."""

    base: Tile
    offsets: Tile
    scale: int
    type: Type


@dataclasses.dataclass(frozen=True)
class Parts:
    """A tile of two dimensions as one of rows ([r, 1]), one of columns ([1, c]) or both, which are added; flags are
    joined by `and`. What reads the parts need not read the whole tile."""

    rows: Tile | None
    columns: Tile | None


def lower(functions: list[Function]) -> TileProgram:
    """The program of the module's public function. Raises TileError for what a tile program cannot express."""
    entry = next(f for f in functions if f.is_public)
    return Lowering(entry, {f.name: f for f in functions}).program()


class Lowering:
    def __init__(self, entry: Function, functions: dict[str, Function]) -> None:
        self.entry = entry
        self.functions = functions
        self.slots: list[tuple] = []
        self.steps: list[Step] = []
        self.constants: dict[tuple, Fill] = {}  # by dtype and bits
        self.depth = 0  # of combinations
        self.texts: list[str] = []
        self.bound: dict[Value, Tile] = {}
        self.places: dict[Value, Places] = {}  # addresses that no step has computed
        self.parts: dict[int, Parts] = {}  # of tiles, by id
        self.preferred: dict[Value, Tile] = {}  # results that are best written in place
        self.carried: set[int] = set()  # tiles that the rounds of a loop write
        self.sequential = False
        self.reads_addresses = False
        self.calls: list[str] = []

    def program(self) -> TileProgram:
        arguments = []
        for position, value in enumerate(self.entry.arguments):
            self.bound[value] = self.new(value.type)
            arguments.append(Argument(self.bound[value].id, position))
        self.blocks(self.entry.body, self.entry.body.entry)
        name = self.entry.name
        if self.entry.location is not None:
            name += f" ({self.entry.location.file})"
        written = written_arguments(self.functions, self.entry)
        if written is None:
            written = set(range(len(arguments)))
        steps = fused(without_unused([*self.constants.values(), *self.steps]), self.slots)
        return TileProgram(
            name, self.slots, steps, arguments, self.texts, self.sequential, self.reads_addresses, written
        )

    # ---------------------------------------------------------------------------------------------------- values
    def new(self, kind: Type, one: bool = False) -> Tile:
        self.slots.append((STORED[kind.element], 1 if one else kind.count))
        return Tile(len(self.slots) - 1, kind, one or kind.count == 1)

    def emit(self, step: Step) -> None:
        self.steps.append(step)

    def of(self, value: Value) -> Tile:
        places = self.places.get(value)
        return self.bound[value] if places is None else self.addresses(places)

    def places_of(self, value: Value) -> Places | Tile:
        return self.places.get(value) or self.bound[value]

    def addresses(self, places: Places) -> Tile:
        """The addresses themselves."""
        offsets = self.binary("mul", self.convert(places.offsets, "i64"), self.constant(places.scale, Type("i64")))
        base = Tile(places.base.id, Type("i64"), True)
        return dataclasses.replace(self.binary("add", offsets, base), type=places.type)

    def constant(self, number: int | float, kind: Type) -> Tile:
        return self.filled(bits_of(number, kind.element), kind)

    def filled(self, bits: int, kind: Type) -> Tile:
        """A tile of one constant, which is written before all other steps."""
        key = STORED[kind.element], bits
        if key not in self.constants:
            tile = self.new(kind, one=True)
            self.constants[key] = Fill(tile.id, bits)
        return Tile(self.constants[key].out, kind, True)

    def full(self, tile: Tile) -> Tile:
        """The tile with all its elements."""
        if not tile.one or tile.type.count == 1:
            return tile
        out = self.new(tile.type)
        self.emit(View(out.id, tile.id, 0, [tile.type.count], [0]))
        return out

    def settled(self, tile: Tile) -> Tile:
        """The tile as it is now: a loop may write its own before a later step reads them."""
        if tile.id not in self.carried:
            return tile
        out = self.new(tile.type, tile.one)
        self.emit(Copy(out.id, tile.id))
        return out

    def alias(self, tile: Tile, kind: Type) -> Tile:
        """The same elements as another type of the same width."""
        kind = Type(kind.element, tile.type.shape, kind.pointee)
        if STORED[tile.type.element] == STORED[kind.element]:
            return Tile(tile.id, kind, tile.one)
        out = self.new(kind, tile.one)
        self.emit(Copy(out.id, tile.id))
        return out

    def result(self, kind: Type, sources: Sequence[Tile], into: Tile | None = None) -> Tile:
        """A new tile for a result that is computed element by element."""
        one = all(s.one for s in sources) and kind.count > 1
        if into is not None and not one:
            return into
        return self.new(kind, one)

    # ------------------------------------------------------------------------------------------------ arithmetic
    def binary(self, kind: str, a: Tile, b: Tile, element: str | None = None, into: Tile | None = None) -> Tile:
        shape = a.type.shape if a.type.shape is not None else b.type.shape
        out = self.result(
            Type(element or a.type.element, shape, a.type.pointee if element is None else None), [a, b], into
        )
        self.emit(Arithmetic(out.id, a.id, b.id, kind))
        if into is None and not out.one:
            self._join_parts(kind, out, a, b)
        return out

    def parts_of(self, tile: Tile) -> Parts | None:
        """Those of this tile in its shape: a tile keeps its id when it is reshaped."""
        parts, dims = self.parts.get(tile.id), tile.type.dims
        if parts is None or len(dims) != 2:
            return None
        pairs = zip((parts.rows, parts.columns), dims, strict=True)
        return parts if all(part is None or part.type.count == n for part, n in pairs) else None

    def _join_parts(self, kind: str, out: Tile, a: Tile, b: Tile) -> None:
        """The parts of a sum of integers, and of flags that are joined."""
        element = out.type.element
        if kind != ("and" if element == "i1" else "add") or element not in ("i1", "i32", "i64"):
            return
        if a.one:
            a, b = b, a
        left = self.parts_of(a)
        right = Parts(None, None) if b.one else self.parts_of(b)
        if left is None or right is None or b.one and b.id in self.carried:
            return

        def joined(x: Tile | None, y: Tile | None) -> Tile | None:
            return self.binary(kind, x, y) if x is not None and y is not None else x or y

        rows, columns = joined(left.rows, right.rows), joined(left.columns, right.columns)
        if b.one and rows is not None:
            rows = joined(rows, b)
        elif b.one:
            columns = joined(columns, b)
        self.parts[out.id] = Parts(rows, columns)

    def formula(self, name: str, *sources: Tile) -> Tile:
        one = all(s.one for s in sources)
        if not one:
            sources = tuple(map(self.full, sources))
        out = self.new(sources[0].type, one)
        self.emit(Formula(out.id, kernel_hash(f"pointwise.{name}"), [s.id for s in sources]))
        return out

    def select(self, condition: Tile, a: Tile, b: Tile, into: Tile | None = None) -> Tile:
        shaped = max((condition, a, b), key=lambda t: t.type.count)
        out = self.result(Type(a.type.element, shaped.type.shape, a.type.pointee), [condition, a, b], into)
        self.emit(Select(out.id, condition.id, a.id, b.id))
        return out

    def inverted(self, tile: Tile) -> Tile:
        return self.binary("xor", tile, self.constant(1, Type("i1")))

    def convert(self, tile: Tile, element: str, read_as: str | None = None) -> Tile:
        """Conversion by PyTorch's rules; integers wrap."""
        source = tile.type.element
        if source == element:
            return tile
        if source in FLOAT8 or element in FLOAT8:
            return self._convert_float8(tile, element)
        out = self.new(tile.type.with_element(element), tile.one)
        dtype = STORED[read_as or source] if read_as != "u8" else None
        self.emit(Convert(out.id, tile.id, 0 if dtype is None else CODES[dtype]))
        parts = self.parts_of(tile)
        if parts is not None and None in (parts.rows, parts.columns) and source in ("i32", "i64"):
            # (A sum may wrap around before it is converted.)
            rows, columns = (None if p is None else self.convert(p, element) for p in (parts.rows, parts.columns))
            self.parts[out.id] = Parts(rows, columns)
        return out

    def _convert_float8(self, tile: Tile, element: str) -> Tile:
        if tile.type.element in FLOAT8:
            out = self.new(tile.type.with_element("f32"), tile.one)
            self.emit(FromFloat8(out.id, tile.id, FLOAT8[tile.type.element]))
            return self.convert(out, element)
        tile = self.convert(tile, "f32")
        out = self.new(tile.type.with_element(element), tile.one)
        self.emit(ToFloat8(out.id, tile.id, FLOAT8[element]))
        return out

    def widened(self, tile: Tile) -> Tile:
        """Half-precision and float8 numbers as float32."""
        return self.convert(tile, "f32") if tile.type.element in HALF or tile.type.element in FLOAT8 else tile

    def unsigned(self, tile: Tile, element: str) -> Tile:
        """A zero-extended integer."""
        source = tile.type.element
        if source == "i1":
            return self.convert(tile, element)
        if source == "i8":
            return self.convert(tile, element, "u8")
        wide = self.convert(tile, element)
        if wide.type.element == source:
            return wide
        return self.binary("and", wide, self.constant((1 << WIDTHS[source]) - 1, Type(element)))

    # ----------------------------------------------------------------------------------------------------- layout
    def view(self, tile: Tile, kind: Type, sizes: Sequence[int], strides: Sequence[int], offset: int = 0) -> Tile:
        if tile.one:
            return Tile(tile.id, kind, True)
        out = self.new(kind)
        self.emit(View(out.id, tile.id, offset, list(sizes), list(strides)))
        return out

    def permuted(self, tile: Tile, order: Sequence[int]) -> Tile:
        strides = contiguous_strides(tile.type.dims)
        sizes = [tile.type.dims[d] for d in order]
        kind = Type(tile.type.element, tuple(sizes), tile.type.pointee)
        if list(order) == sorted(order):
            return Tile(tile.id, kind, tile.one)
        return self.view(tile, kind, sizes, [strides[d] for d in order])

    # -------------------------------------------------------------------------------------------------- structure
    def copy(self, to: Tile, source: Tile) -> None:
        if to.id == source.id:
            return
        if source.one and to.type.count > 1:
            self.emit(View(to.id, source.id, 0, [to.type.count], [0]))
        else:
            self.emit(Copy(to.id, source.id))

    def copy_all(self, to: Sequence[Tile], sources: Sequence[Tile]) -> None:
        """As if all were read before one is written."""
        written = {t.id for t in to}
        held = []
        for target, source in zip(to, sources, strict=True):
            if source.id in written and source.id != target.id:
                temporary = self.new(source.type, source.one)
                self.emit(Copy(temporary.id, source.id))
                source = temporary
            held.append(source)
        for target, source in zip(to, held, strict=True):
            self.copy(target, source)

    def inside(self, body: Callable[[], object]) -> list[Step]:
        """The steps that `body` emits."""
        kept, self.steps = self.steps, []
        body()
        steps, self.steps = self.steps, kept
        return steps

    def block(self, block: Block) -> Op | None:
        """Emits the ops of a block but its terminator, which is returned."""
        terminator = None
        for op in block.ops:
            if op.name in TERMINATORS:
                terminator = op
                continue
            self.op(op)
        return terminator

    def block_into(self, block: Block, outs: Sequence[Tile]) -> None:
        """A block whose terminator gives the values of `outs`."""
        end = self.block(block)
        if end is not None:
            self.copy_all(outs, [self.of(v) for v in end.operands])

    def blocks(self, region: Region, block: Block, outs: Sequence[Tile] = ()) -> None:
        """A function's body from a block on: branches to blocks become branches with copies of the blocks in them.

        `outs`: where each return writes its values.
        """
        end = self.block(block)
        if end is None:
            return
        if end.name == "tt.return":
            self.copy_all(outs, [self.of(v) for v in end.operands])
        elif end.name == "cf.br":
            self.successor(region, end, 0, outs)
        elif end.name == "cf.cond_br":
            condition = self.of(end.operands[0])
            bodies = [self.inside(functools.partial(self.successor, region, end, i, outs)) for i in range(2)]
            self.emit(Branch(condition.id, *bodies))
        else:
            raise end.fail("not the end of a function's block")

    def successor(self, region: Region, end: Op, which: int, outs: Sequence[Tile]) -> None:
        """The block that a branch goes to, with the values that the branch passes."""
        target = next(b for b in region.blocks if b.label == end.successors[which])
        for argument, value in zip(target.arguments, end.passed[which], strict=True):
            self.places.pop(argument, None)
            self.bound[argument] = self.of(value)
        self.blocks(region, target, outs)

    def op(self, op: Op) -> None:
        rule = RULES.get(op.name)
        if rule is None:
            raise op.fail("no rule of tile programs")
        try:
            results = rule(self, op)
        except TileError as error:
            error.location = error.location or op.location
            raise
        for value, tile in zip(op.results, results, strict=True):
            if isinstance(tile, Places):
                self.places[value] = tile
                continue
            self.places.pop(value, None)
            if self.depth:  # in a combination, an element of the IR is a tile of them
                self.bound[value] = tile
                continue
            if tile.type.count != value.type.count:
                raise op.fail(f"a result of {tile.type}, expected {value.type}")
            self.bound[value] = Tile(tile.id, value.type, tile.one)

    def line(self, op: Op) -> int:
        return op.location.line if op.location is not None else 0


TERMINATORS = ("tt.return", "scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return", "cf.br", "cf.cond_br",
               "tt.map_elementwise.return")  # fmt: skip

rule = RULES = Rules()  # functions of (Lowering, Op), which give the results: tiles or places


def without_unused(steps: list[Step]) -> list[Step]:
    """Without steps whose result no step reads."""
    while True:
        read: set[int] = set()

        def look(inner: list[Step], read: set[int] = read) -> None:
            for step in inner:
                read.update(step.read if step.pure else step.values)
                for body in step.bodies:
                    look(body)

        look(steps)
        found = _with_results(steps, read)
        if found == steps:
            return steps
        steps = found


def _with_results(steps: list[Step], read: set[int]) -> list[Step]:
    kept = [step for step in steps if not step.pure or read.intersection(step.ids("out"))]
    return [
        step.with_bodies([_with_results(body, read) for body in step.bodies]) if step.bodies else step for step in kept
    ]


def bits_of(number: int | float, element: str) -> int:
    """The bits of a constant as a signed 64-bit word."""
    if element in ("f32", "f64"):
        letter, integer = ("f", "i") if element == "f32" else ("d", "q")
        return int(struct.unpack(f"<{integer}", struct.pack(f"<{letter}", number))[0])
    if element in HALF or element in FLOAT8:
        raise TileError(f"the bits of a {element} constant")
    if element == "i1":
        return int(number != 0)
    width = WIDTHS[element]
    value = int(number) & ((1 << width) - 1)
    return value - (1 << width) if value >> (width - 1) else value


@rule(*arithmetic.ARITHMETIC)
def _arithmetic(low: Lowering, op: Op) -> list[Tile]:
    a, b = map(low.of, op.operands)
    kind = arithmetic.ARITHMETIC[op.name]
    element = a.type.element
    into = low.preferred.get(op.results[0])
    if element in HALF or element in FLOAT8:
        return [low.convert(low.binary(kind, low.widened(a), low.widened(b)), element)]
    if element == "i1":
        kind = {"add": "xor", "sub": "xor", "mul": "and", "min": "or", "max": "and", "min_unsigned": "and",
                "max_unsigned": "or"}.get(kind, kind)  # fmt: skip
    return [low.binary(kind, a, b, into=into)]


@rule(*arithmetic.FORMULAS)
def _formula(low: Lowering, op: Op) -> list[Tile]:
    sources = [low.of(v) for v in op.operands]
    out = low.formula(arithmetic.FORMULAS[op.name], *map(low.widened, sources))
    return [low.convert(out, sources[0].type.element)]
