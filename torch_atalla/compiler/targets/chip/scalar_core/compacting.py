# SPDX-License-Identifier: BSD-3-Clause
"""Elements that a mask selects, in row-major order."""

from __future__ import annotations

from torch_atalla.driver import c_abi

from .positions import positions
from .routine import Context, routine

BLOCK_BITS = 12  # a block of compact.count has 4,096 elements


@routine("compact.count")
def count(c: Context) -> None:
    """The number of true elements before each block, and of all."""
    core = c.core
    (starts,), (x,) = c.outputs, c.inputs
    number, found = core.variable(0), core.variable(0)
    with x.each() as (element,):
        with core.when((number & core.bits((1 << BLOCK_BITS) - 1)).equals(0)):
            starts[number.shifted("srl.s", BLOCK_BITS)].store(found)
        found.set(found + core.convert(core.nonzero(element.load()), "i"))
        number.set(number + 1)
    starts[starts.size(0) - 1].store(found)


@routine("compact.nonzero")
def nonzero(c: Context) -> None:
    """The coordinates of as many true elements as the result has rows."""
    core = c.core
    (out,), (x, _) = c.outputs, c.inputs
    number = core.variable(0)
    with positions(x) as here, core.when(core.nonzero(x[here].load())):
        with core.when(number < out.size(0)):
            row = out[number]
            for dim, index in enumerate(here):
                row[dim].store(index)
        number.set(number + 1)


@routine("masked_scatter")
def masked_scatter(c: Context) -> None:
    """Too few elements are a fault."""
    core = c.core
    (out,), (source, mask, _) = c.outputs, c.inputs
    number = core.variable(0)
    with out.each(out, mask) as (target, element), core.when(core.nonzero(element.load())):
        inside = core.new("sltu.s", "b", number, source.size(0))
        core.fault_unless(inside, c_abi.ATALLA_ISA_FAULT_INDEX, number, source.size(0))
        target.copy(source[number])
        number.set(number + 1)
