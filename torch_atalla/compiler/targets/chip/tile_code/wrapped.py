# SPDX-License-Identifier: BSD-3-Clause
"""Loads of tiles whose rows or columns go around: places (start + i) modulo size, as of `offsets % n`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_atalla.driver import c_abi
from torch_atalla.isa.geometry import LANES

from ..kernels.tiling import ELEMENT
from . import scalars
from .generator import Generator
from .scalars import add, multiply
from .transfers import Window, meta_word, move, move_band, transfer
from .values import Buffer, Wrap


def load_wrapped(
    g: Generator, buffer: Buffer, window: Window, wraps: dict[int, Wrap], fill: Callable[[], None]
) -> None:
    """As one window where no place goes around; else in bands of rows that do not go around. What has two pieces along
    the lanes is put together in DRAM."""
    core = g.core
    starts: dict[bool, tuple[Any, Any]] = {}  # along the lanes or not: the first place, and the size
    around: Any = 0
    address = window.address
    for dim, wrap in wraps.items():
        along = dim == buffer.lane
        first = core.value(wrap.start)
        core.fault_unless(~(first < 0), c_abi.ATALLA_ISA_FAULT_INDEX, first, core.value(wrap.size))
        start = core.value(scalars.modulo(core, wrap.start, wrap.size))
        starts[along] = start, core.value(wrap.size)
        count = buffer.lanes if along else buffer.rows
        beyond = core.value(scalars.less(core, wrap.size, add(core, start, count)))
        around = beyond if isinstance(around, int) else around | beyond
        address = add(core, address, multiply(core, start, multiply(core, 1 if along else window.step, ELEMENT)))
    around = core.variable(around)
    with core.when(~around):
        transfer(g, buffer, Window(address, window.step, window.height, window.width), True, fill)
    with core.when(around):
        fill()
        _bands(g, buffer, window, starts)


def _bands(g: Generator, buffer: Buffer, window: Window, starts: dict[bool, tuple[Any, Any]]) -> None:
    core = g.core
    row_start, row_size = starts.get(False, (0, 0))
    place, done = g.variable(row_start), g.variable(0)
    through = g.reserve(LANES * buffer.lanes * ELEMENT) if True in starts else None
    temporary = g.new_buffer((LANES, LANES), 1, 0) if True in starts else None
    step = multiply(core, window.step, ELEMENT)
    height = core.value(window.height)
    with core.repeat_while(lambda: done < height):
        count = core.value(scalars.least(core, height - done, LANES))
        if False in starts:
            count = core.value(scalars.least(core, count, row_size - place))
        source = core.value(add(core, window.address, multiply(core, place, step)))
        between = window.step
        if through is not None and temporary is not None:
            _join_pieces(g, temporary, count, source, between, through, buffer.lanes, starts[True])
            source, between = core.value(through), buffer.lanes
        move_band(g, buffer, done, Window(source, between, count, window.width), True)
        done.set(done + count)
        place.set(place + count)
        if False in starts:
            with core.when(~(place < row_size)):
                place.set(0)


def _join_pieces(
    g: Generator, temporary: Buffer, rows: Any, source: Any, step: Any, through: Any, lanes: int, around: Any
) -> None:
    """Rows in pieces that do not go around, side by side into `through`, whose rows have `lanes` elements."""
    core, (start, size) = g.core, around
    at, done = g.variable(start), g.variable(0)
    with core.repeat_while(lambda: done < lanes):
        count = core.value(scalars.least(core, scalars.least(core, size - at, lanes - done), LANES))
        whole = add(core, source, multiply(core, at, ELEMENT))
        joined = add(core, through, multiply(core, done, ELEMENT))
        for address, between, is_load in ((whole, step, True), (joined, lanes, False)):
            move(g, temporary, 0, address, meta_word(g, temporary, rows, count, between), is_load)
        done.set(done + count)
        at.set(at + count)
        with core.when(~(at < size)):
            at.set(0)
