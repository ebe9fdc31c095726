# SPDX-License-Identifier: BSD-3-Clause
"""Tiles between DRAM and a scratchpad: SDMA tiles of up to 32 x 32, fewer rows and columns at borders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..kernels.tiling import ELEMENT, ROW_BYTES
from ..scalar_core.values import Value
from ..vir import Reg
from . import scalars
from .scalars import add, clamp, multiply
from .sweep import Sweeps
from .values import Buffer, Scalar

UNROLLED = 8  # transfers


@dataclass(frozen=True)
class Window:
    """Where a buffer's numbers are in DRAM. step: elements from row to row. height, width: of what is inside."""

    address: Scalar
    step: Scalar
    height: Scalar
    width: Scalar


def transfer(
    s: Sweeps, buffer: Buffer, window: Window, is_load: bool, before: Callable[[], None] = lambda: None
) -> None:
    """before: what a load does first if it does not fill the buffer."""
    core, rows, lanes = s.core, buffer.rows, buffer.lanes
    if isinstance(window.step, Value) and rows > 1:
        # The word of a transfer has 20 bits for the distance of rows, and rows do not overlap.
        low = 2 if lanes > 1 else 1
        regular = core.variable((window.step - low).as_kind("i"))
        regular.set(core.new("sltu.s", "b", regular, core.bits((1 << 20) + 1 - low)))
        with core.when(~regular.as_kind("b")):
            if is_load:
                before()
            _rows_alone(s, buffer, window, is_load)
        with core.when(regular):
            _whole_or_part(s, buffer, window, is_load, before)
        return
    _whole_or_part(s, buffer, window, is_load, before)


def _whole_or_part(s: Sweeps, buffer: Buffer, window: Window, is_load: bool, before: Callable[[], None]) -> None:
    core = s.core
    is_line = buffer.rows == 1 and buffer.lanes > LANES
    whole, partly = (_line, _part_of_line) if is_line else (_rectangle, _part_of_rectangle)
    sizes = ((window.height, buffer.rows), (window.width, buffer.lanes))
    missing = [core.value(scalars.less(core, n, full)) for n, full in sizes if not _equals(n, full)]
    if not missing:
        whole(s, buffer, window, is_load)
        return
    cut = missing[0] if len(missing) == 1 else missing[0] | missing[1]
    cut = core.variable(cut)
    with core.when(~cut):
        whole(s, buffer, window, is_load)
    with core.when(cut):
        before()
        partly(s, buffer, window, is_load)


def _equals(a: Scalar, b: int) -> bool:
    return isinstance(a, int) and a == b


def move(s: Sweeps, buffer: Buffer, place: Scalar, address: Scalar, meta: Reg, is_load: bool) -> None:
    """One transfer. place: a row of the buffer."""
    b, core = s.b, s.core
    scratch = add(core, multiply(core, place, ROW_BYTES), buffer.first * ROW_BYTES)
    if buffer.shift is not None:
        scratch = add(core, buffer.shift, scratch)
    registers = s.register(scratch), s.register(address)
    if is_load:
        b.tile_load(*registers, meta, buffer.region)
    else:
        b.tile_store(*registers, meta, buffer.region)


def meta_word(s: Sweeps, buffer: Buffer, rows: Scalar, cols: Scalar, step: Scalar) -> Reg:
    """Of a tile of `rows` rows, `step` elements apart; a step of 0 is one of `cols`."""
    core = s.core
    word: Any = buffer.sid << 30
    for count, shift in ((rows, 25), (cols, 20)):
        field = scalars.subtract(core, count, 1)
        word = add(core, word, multiply(core, field, 1 << shift))
    return s.register(add(core, word, scalars.subtract(core, step, 1) if not _equals(step, 0) else 0))


def _line(s: Sweeps, buffer: Buffer, window: Window, is_load: bool) -> None:
    """Neighbouring elements: 1,024 are one tile."""
    core, rows = s.core, min(LANES, buffer.vectors)
    meta = meta_word(s, buffer, rows, LANES, 0)

    def piece(n: Any) -> None:
        address = add(core, window.address, multiply(core, n, LANES * LANES * ELEMENT))
        move(s, buffer, multiply(core, n, LANES), address, meta, is_load)

    s.for_each(buffer.vectors // rows, piece, UNROLLED)


def _part_of_line(s: Sweeps, buffer: Buffer, window: Window, is_load: bool) -> None:
    """Whole tiles, whole rows, and the rest of a row. A height of 0 makes it empty."""
    core = s.core
    width = window.width
    if not _equals(window.height, 1):
        width = scalars.select(core, scalars.less(core, window.height, 1), 0, width)
    width = core.value(width)
    left = core.variable(width.shifted("srl.s", 5))
    row, address = s.variable(0), s.variable(window.address)
    with core.repeat_while(lambda: core.value(0) < left):
        count = scalars.least(core, left, LANES)
        move(s, buffer, row, address, meta_word(s, buffer, count, LANES, 0), is_load)
        row.set(row + count)
        left.set(left - count)
        address.set(address + multiply(core, count, LANES * ELEMENT))
    rest = width.bitwise("and.s", core.bits(LANES - 1))
    with core.when(core.nonzero(rest)):
        move(s, buffer, row, address, meta_word(s, buffer, 1, rest, 0), is_load)


def _rectangle(s: Sweeps, buffer: Buffer, window: Window, is_load: bool) -> None:
    core, rows, lanes = s.core, buffer.rows, buffer.lanes
    high, wide = min(rows, LANES), min(lanes, LANES)
    meta = meta_word(s, buffer, high, wide, window.step if high > 1 else 0)
    down, across = rows // high, -(-lanes // LANES)
    most = UNROLLED if down * across <= UNROLLED else 1

    def column(j: Any) -> None:
        def tile(m: Any) -> None:
            address = add(core, window.address, multiply(core, window.step, multiply(core, m, high * ELEMENT)))
            row = add(core, multiply(core, j, rows), multiply(core, m, high))
            move(s, buffer, row, add(core, address, multiply(core, j, LANES * ELEMENT)), meta, is_load)

        s.for_each(down, tile, most)

    s.for_each(across, column, most)


def _rows_alone(s: Sweeps, buffer: Buffer, window: Window, is_load: bool) -> None:
    """Rows at any distance, one by one."""
    core = s.core
    with core.range(core.value(window.height)) as m:
        address = add(core, window.address, multiply(core, multiply(core, m, window.step), ELEMENT))
        move_band(s, buffer, m, Window(address, 0, 1, window.width), is_load)


def _part_of_rectangle(s: Sweeps, buffer: Buffer, window: Window, is_load: bool) -> None:
    core, rows = s.core, buffer.rows

    def band(m: Any) -> None:
        height = clamp(core, scalars.subtract(core, window.height, multiply(core, m, LANES)), min(rows, LANES))
        with core.when(core.value(scalars.less(core, 0, height))):
            address = add(core, window.address, multiply(core, multiply(core, m, window.step), LANES * ELEMENT))
            inside = Window(address, window.step if rows > 1 else 0, height, window.width)
            move_band(s, buffer, multiply(core, m, LANES), inside, is_load)

    s.for_each(-(-rows // LANES), band)


def move_band(s: Sweeps, buffer: Buffer, first: Any, window: Window, is_load: bool) -> None:
    """The window's rows, up to 32, which are those of the buffer from row `first` on."""
    core = s.core

    def tile(j: Any) -> None:
        width = clamp(core, scalars.subtract(core, window.width, multiply(core, j, LANES)), min(buffer.lanes, LANES))
        with core.when(core.value(scalars.less(core, 0, width))):
            row = add(core, multiply(core, j, buffer.rows), first)
            address = add(core, window.address, multiply(core, j, LANES * ELEMENT))
            move(s, buffer, row, address, meta_word(s, buffer, window.height, width, window.step), is_load)

    s.for_each(-(-buffer.lanes // LANES), tile)
