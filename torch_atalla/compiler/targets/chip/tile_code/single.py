# SPDX-License-Identifier: BSD-3-Clause
"""Single numbers in DRAM, which the scalar core loads and stores."""

from __future__ import annotations

from typing import Any

from ....tile.ir import Op
from ..vir import Access
from . import scalars
from .generator import Generator
from .values import Wide

READ, WRITE = (Access("dram", False),), (Access("dram", True),)


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
