# SPDX-License-Identifier: BSD-3-Clause
"""Single numbers in DRAM, and tiles that the scalar core computes or moves element by element."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from .....tile.ir import WIDTHS, Op
from ...kernels.tiling import ELEMENT
from ...scalar_core.values import Value
from ...vir import Access
from .. import scalars
from ..generator import STAGE, Generator
from ..transfers import Window, transfer
from ..values import Affine, Buffer, Element, Lazy, Mask, Table, Uniform, Wide, places_of_argument

READ, WRITE = (Access("dram", False),), (Access("dram", True),)
Place = tuple[Any, ...]  # an index for each dimension


def load_number(g: Generator, op: Op, element: str, address: Any) -> Any:
    """A number in DRAM as a scalar."""
    core, b = g.core, g.b
    place = g.register(address)
    if element not in ("bf16", "f32", "i32", "i64"):
        raise op.fail(f"a number of {element} in memory; expected bf16, f32, i32 or i64")
    out = b.x()
    b.emit("lhw.s" if element == "bf16" else "lw.s", out, 0, place, access=READ)
    if element == "i64":
        high = b.x()
        b.emit("lw.s", high, 4, place, access=READ)
        return Wide(core.wrap(out, "i"), core.wrap(high, "i"))
    return core.wrap(out, "i" if element == "i32" else "f")


def store_number(g: Generator, op: Op, element: str, address: Any, x: Any) -> None:
    """A scalar to DRAM. One of bf16 has been rounded."""
    core, b = g.core, g.b
    place = g.register(address)
    if element == "bf16":
        b.emit("shw.s", core.value(x, "f").reg, 0, place, access=WRITE)
    elif element in ("f32", "i32"):
        b.emit("sw.s", core.convert(core.value(x, element[0]), element[0]).reg, 0, place, access=WRITE)
    elif element == "i64":
        wide = scalars.widened(core, x)
        b.emit("sw.s", g.register(wide.low), 0, place, access=WRITE)
        b.emit("sw.s", g.register(wide.high), 4, place, access=WRITE)
    else:
        raise op.fail(f"a number of {element} in memory; expected bf16, f32, i32 or i64")


class Evaluation:
    """The numbers of tiles at one place."""

    def __init__(self, g: Generator) -> None:
        self.g = g
        self.known: dict[Any, Any] = {}

    def at(self, x: Any, place: Place, scale: int = 1) -> Any:
        """scale: bytes of a step, of addresses."""
        key = (x, *place, scale)
        if key not in self.known:
            self.known[key] = self._at(x, place, scale)
        return self.known[key]

    def _at(self, x: Any, place: Place, scale: int) -> Any:
        core = self.g.core
        if isinstance(x, Uniform):
            return x.value
        if isinstance(x, Affine):
            return scalars.add(core, x.base, scalars.multiply(core, self._terms(x, place), scale))
        if isinstance(x, Mask):
            found: Any = 1
            for p in x.predicates:
                below = scalars.less(core, self.at(p, place), 0)
                found = below if isinstance(found, int) else core.value(found) & core.value(below)
            return found
        if isinstance(x, Table):
            return load_number(self.g, self._op, "i32", scalars.add(core, x.address, _linear(core, x.shape, place, 4)))
        if isinstance(x, Lazy | Buffer):
            raise _op_of(self.g).fail("an address, a mask or an index that the vector unit computes")
        if not isinstance(x, Element):
            return x
        self._op = op = x.op
        if op.name == "tt.addptr":
            scale = WIDTHS.get(op.operands[0].type.pointee or "i8", 64) // 8
            base, offset = self.at(x.arguments[0], place, scale), self.at(x.arguments[1], place)
            return scalars.add(core, base, scalars.multiply(core, offset, scale))
        if op.name in ("tt.expand_dims", "tt.broadcast", "tt.trans"):
            (argument,) = x.arguments
            return self.at(argument, places_of_argument(op, argument.shape, place, 0), scale)
        return scalars.compute(core, op, [self.at(argument, place) for argument in x.arguments])

    _op: Any = None

    def _terms(self, x: Affine, place: Place) -> Any:
        core, total = self.g.core, 0
        for d, term in x.terms.items():
            index = place[d]
            if term.wrap is not None:
                index = scalars.remainder(core, scalars.add(core, term.wrap.start, index), term.wrap.size)
            total = scalars.add(core, total, scalars.multiply(core, index, term.step))
        return total


def _linear(core: Any, shape: tuple[int, ...], place: Place, nbytes: int) -> Any:
    total: Any = 0
    for n, index in zip(shape, place, strict=True):
        total = scalars.add(core, scalars.multiply(core, total, n), index)
    return scalars.multiply(core, total, nbytes)


@contextmanager
def each_place(g: Generator, shape: tuple[int, ...]) -> Iterator[Place]:
    """A loop over all elements of a tile, the last dimension innermost."""
    core = g.core
    if not shape:
        yield ()
        return
    with core.range(shape[0]) as index, each_place(g, shape[1:]) as rest:
        yield (index, *rest)


def buffer_of(g: Generator, shape: tuple[int, ...], address: Value) -> Buffer:
    """Load a tile from DRAM, the last dimension innermost, into a scratchpad."""
    if len(shape) > 2:
        raise _op_of(g).fail(f"a tile of {len(shape)} dimensions; expected one or two")
    buffer = g.new_buffer(shape, len(shape) - 1, 0)
    transfer(g, buffer, Window(address, buffer.lanes, buffer.rows, buffer.lanes), True)
    return buffer


def _op_of(g: Generator) -> Op:
    assert g.op is not None
    return g.op


def stage(g: Generator, x: Element) -> Buffer:
    """Numbers, or truth values as 0 and 1, of BF16."""
    core, element = g.core, x.op.results[0].type.element
    if element not in ("bf16", "f32", "i1"):
        raise _op_of(g).fail(f"a tile of {element} as an operand of the vector unit; expected numbers or truth values")
    address = core.variable(g.reserve(prod(x.shape) * ELEMENT))
    target = core.variable(address)
    with each_place(g, x.shape) as place:
        found = core.value(Evaluation(g).at(x, place), "b" if element == "i1" else "f")
        found = core.convert(core.nonzero(found), "f") if element == "i1" else core.rounded(found)
        store_number(g, _op_of(g), "bf16", target, found)
        target.set(target + ELEMENT)
    return buffer_of(g, x.shape, address)


STAGE.append(stage)


def _wrong_element(element: str) -> str:
    return (
        f"a tile of {element} in memory; expected bf16 (vector unit) or i32 (scalar core). Convert numbers to bfloat16"
    )


def load(g: Generator, op: Op, places: Any, mask: Any, other: Any) -> Any:
    """A tile whose elements are anywhere: one after the other into a row of them."""
    core, kind = g.core, op.results[0].type
    if kind.element not in ("bf16", "i32"):
        raise op.fail(_wrong_element(kind.element))
    if isinstance(other, Lazy | Buffer):
        raise op.fail("a computed tile in place of what a mask leaves out, of irregular addresses")
    nbytes = 2 if kind.element == "bf16" else 4
    address = core.variable(g.reserve(kind.count * nbytes))
    target = core.variable(address)
    with each_place(g, kind.dims) as place:
        here = Evaluation(g)
        missing = 0 if other is None else here.at(other, place)
        found = g.variable(missing, "f" if kind.element == "bf16" else "i")
        if mask is None:
            found.set(load_number(g, op, kind.element, here.at(places, place, nbytes)))
        else:
            with core.when(core.nonzero(core.value(here.at(mask, place)))):
                found.set(load_number(g, op, kind.element, Evaluation(g).at(places, place, nbytes)))
        store_number(g, op, kind.element, target, found)
        target.set(target + nbytes)
    return buffer_of(g, kind.dims, address) if kind.element == "bf16" else Table(kind.dims, address)


def store(g: Generator, op: Op, places: Any, x: Any, mask: Any) -> None:
    """Elements anywhere; those of the vector unit from a row of them."""
    core, kind = g.core, op.operands[1].type
    if kind.element not in ("bf16", "i32"):
        raise op.fail(_wrong_element(kind.element))
    nbytes = 2 if kind.element == "bf16" else 4
    source = None
    if isinstance(x, Lazy | Buffer):
        if len(kind.dims) > 2:
            raise op.fail(f"a tile of {len(kind.dims)} dimensions; expected one or two")
        source = core.variable(g.reserve(kind.count * nbytes))
        buffer = g.rounded_tile(x, len(kind.dims) - 1)
        transfer(g, buffer, Window(source, buffer.lanes, buffer.rows, buffer.lanes), False)
    with each_place(g, kind.dims) as place:
        condition = 1 if mask is None else Evaluation(g).at(mask, place)
        with core.when(core.nonzero(core.value(condition))):
            here = Evaluation(g)
            if source is not None:
                linear = _linear(core, kind.dims, place, nbytes)
                found = load_number(g, op, "bf16", scalars.add(core, source, linear))
            else:
                found = here.at(x, place)
            store_number(g, op, kind.element, here.at(places, place, nbytes), found)
