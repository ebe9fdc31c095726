# SPDX-License-Identifier: BSD-3-Clause
"""Gathering rows by integer indices, and strided copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch_atalla.driver import c_abi
from torch_atalla.isa.geometry import LANES

from ..vir import X0, Builder, Reg
from .activation import Constants
from .common import Kernel, Parameters, fault
from .kept import Transfer
from .pointwise import Layout, Unsupported, collapse
from .tiling import ELEMENT, Call, NamedVariant, metadata, nest_words, tile_loops


# -- rows of a table ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Gather(NamedVariant):
    """out[i, :] = table[index[i], :], `width` neighbouring elements in memory, through scratchpad 0.

    An index out of range stops the program with an error that names it.
    """

    kernel = "gather"
    wraps: bool  # indices below 0 count from the end
    wide: bool  # indices of 64 bits


def plan_gather(
    count: int, width: int, rows: int, table_row: int, out_row: int, index_step: int, wide: bool, wraps: bool = False
) -> Call:
    """Addresses: table, index, out. A row is moved as contiguous tiles of 32 x 32 and a rest."""
    block = LANES * LANES
    whole, rest = divmod(width, block)
    lines, last = divmod(rest, LANES)
    if width > 512 * block:
        raise Unsupported(f"rows of {width} elements")
    words = {
        "count": count,
        "whole": whole,
        "index_step": index_step,
        "table_row": table_row * ELEMENT,
        "out_row": out_row * ELEMENT,
        "table_rows": rows,
        "rows": lines,
        "has_last": int(last > 0),
        "m_block": metadata(0, LANES, LANES, LANES),
        "m_rows": metadata(0, max(lines, 1), LANES, LANES),
        "m_last": metadata(0, 1, max(last, 1), max(last, 1)),
        "rows_bytes": lines * LANES * ELEMENT,
    }
    return Gather(wraps, wide), words, {}


def build_gather(variant: Gather) -> Builder:
    b = Builder(variant.name)
    p = Parameters(b, Constants(b))
    block_bytes = b.li(LANES * LANES * ELEMENT)
    place, toggle = b.s("addi.s", X0, 0), b.li(LANES * 64)
    with b.walk(p["count"], (p["index"], p["index_step"]), (p["out"], p["out_row"])) as (index, out):
        given = row = b.s("lw.s", 0, index)
        if variant.wide:
            check_high_word(b, given, b.s("lw.s", 4, index))
        if variant.wraps:
            row = b.s("add.s", given, b.s("and.s", b.s("srai.s", given, 31), p["table_rows"]))
        inside = b.s("sltu.s", row, p["table_rows"])
        with b.unless("bne.s", inside, X0):
            fault(b, c_abi.ATALLA_ISA_FAULT_INDEX, given, p["table_rows"])
        source = b.s("add.s", p["table"], b.s("mul.s", row, p["table_row"]))
        target = b.s("addi.s", out, 0)

        def move(meta: Reg) -> None:
            b.tile_load(place, source, meta, "rows")
            b.tile_store(place, target, meta, "rows")
            b.emit("xor.s", place, place, toggle)

        with b.loop(p["whole"], skip_empty=True):
            move(p["m_block"])
            b.emit("add.s", source, source, block_bytes)
            b.emit("add.s", target, target, block_bytes)
        with b.unless("beq.s", p["rows"], X0):
            move(p["m_rows"])
            b.emit("add.s", source, source, p["rows_bytes"])
            b.emit("add.s", target, target, p["rows_bytes"])
        with b.unless("beq.s", p["has_last"], X0):
            move(p["m_last"])
    b.ret()
    return b


def check_high_word(b: Builder, low: Reg, high: Reg) -> None:
    """Stops the program unless a 64-bit integer is its lower word, sign-extended."""
    with b.unless("beq.s", high, b.s("srai.s", low, 31)):
        fault(b, c_abi.ATALLA_ISA_FAULT_INTEGER, low, high)


# -- any strided copy --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Copy(NamedVariant):
    """out[...] = in[...], moved by the DMA engine alone: tiles where both have the same unit-stride dimension, else
    single columns of 32 elements."""

    kernel = "copy"
    depth: int


def plan_copy(sizes: Sequence[int], out: Sequence[int], source: Sequence[int]) -> list[Call]:
    """Addresses: o, x."""
    if any(source[d] == 0 for d in range(len(sizes)) if sizes[d] != 1):
        raise Unsupported("a broadcast")  # the pointwise kernel's
    order = sorted(range(len(sizes)), key=lambda d: -out[d])  # so that neighbours in memory become one dimension
    joined = collapse(Layout(tuple(sizes[d] for d in order), tuple(tuple(s[d] for d in order) for s in (out, source))))
    sizes, (out, source) = joined.sizes, joined.strides
    dims = [d for d in range(len(sizes)) if sizes[d] != 1]
    lanes = next((d for d in dims if out[d] == 1 and source[d] == 1), None)
    rest = 0  # elements behind whole rows
    if lanes is not None and sizes[lanes] > LANES and (sizes[lanes] % LANES == 0 or len(dims) == 1):
        # A run of whole rows: these are one more dimension.
        whole, rest = divmod(sizes[lanes], LANES)
        sizes, out, source = (*sizes[:lanes], LANES, *sizes[lanes + 1 :], whole), (*out, LANES), (*source, LANES)
        dims += [len(sizes) - 1] * (whole > 1)
    others = [d for d in dims if d != lanes]
    # A tile's rows: the dimension that leaves the fewest tiles.
    rows = min(others, key=lambda d: -(-sizes[d] // LANES) * LANES / sizes[d] - sizes[d] / 1e9, default=None)
    loops = [(sizes[d], out[d], source[d]) for d in others if d != rows]
    row = (1, 1, 1) if rows is None else (sizes[rows], out[rows], source[rows])
    calls: list[Call] = []
    for nest, rt, ct, (o, x) in tile_loops(loops, row, (1 if lanes is None else sizes[lanes], 1, 1)):
        words = {"meta_o": _tile(rt, ct, row[1]), "meta_x": _tile(rt, ct, row[2])}
        words |= nest_words(nest, "nox", (1, ELEMENT, ELEMENT))
        calls.append((Copy(len(nest)), words, {"o": o, "x": x}))
    if rest:
        words = {"meta_o": _tile(1, rest, 1), "meta_x": _tile(1, rest, 1)}
        calls.append((Copy(0), words, dict.fromkeys("ox", whole * LANES)))
    return calls


def _tile(rows: int, cols: int, row: int) -> int:
    if rows > 1 and row == 1 and cols > 1:
        raise Unsupported("rows one element apart")
    return metadata(0, rows, cols, row if rows > 1 else cols)


class _Copy(Kernel):
    v: Copy

    @classmethod
    def transfers(cls, variant: Copy) -> dict[str, Transfer]:
        return {
            "x": Transfer("tile", 0, ("meta_x",)),
            "o": Transfer("tile", 0, ("meta_o",), stores=True),
        }

    @classmethod
    def scratch_rows(cls, variant: Copy, words: Mapping[str, Any]) -> int:
        return 2 * LANES

    def emit(self) -> None:
        b = self.b
        place, toggle = b.s("addi.s", X0, 0), b.li(LANES * 64)

        def tile(o: Reg, x: Reg) -> None:
            b.tile_load(place, x, self.p["meta_x"], "tile")
            b.tile_store(place, o, self.p["meta_o"], "tile")
            b.emit("xor.s", place, place, toggle)

        self.nest(self.v.depth, {name: self.p[name] for name in "ox"}, tile)


build_copy = _Copy.build
