# SPDX-License-Identifier: BSD-3-Clause
"""softmax(scale * q k' + mask) v, a head and 32 queries at a time. Scores live in scratchpad 0 and never reach DRAM.

For a head, the keys come into scratchpad 1 as they are (a key is a column of weights), and the values are transposed
there through the array. For a block of queries: scores and their greatest, exponentials and their sums (an array of
ones), then the product with the values, divided by the sums. The next block's queries and, in pieces, the next head's
keys and values come in meanwhile. A table in DRAM says where each head's operands begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Access, Reg, bf16_bits
from .common import Kernel, in_lanes, store_transposed
from .kept import Transfer
from .pointwise import Unsupported
from .tiling import (
    ELEMENT,
    ROW_BYTES,
    SCRATCH_ROWS,
    TILE_BYTES,
    Call,
    NamedVariant,
    edge_words,
    metadata,
    pad_rows,
    split,
    tail,
    tile_in,
    tiles,
)

Q_SID, K_SID = 0, 1
MASKED = -1.0e30  # is added where a mask is false: no score is as small, and its exponential is 0
MOST_WIDTH = 4  # tiles of a head

# Scratchpad 0, in tiles: queries, results, mask, causal mask, then scores.
Q_TILE, OUT_TILE, MASK_TILE, CAUSAL_TILE, SCORE_TILE = 0, 4, 8, 9, 10


@dataclass(frozen=True)
class Variant(NamedVariant):
    kernel = "attention"
    e: int  # tiles of a query
    ev: int  # tiles of a value
    clear: bool  # a tile of q, k or v is not full
    cut: bool  # the last tile of keys is not full
    mask: str  # "none", "add", "bool"; with "_row" when all queries share it
    causal: bool
    rows: int  # queries of a block that are computed
    double: bool  # scratchpad 1 holds the keys and values of two heads
    group: int = 0  # 1: the array takes two tiles of a query at once; 2: it gives two tiles of a result
    sums: bool = False  # the logarithms of the sums are a second result


@dataclass(frozen=True)
class Heads:
    """Sizes; distances in elements. `outer` lists loops: a count, and the steps of q, k, v, out and mask."""

    length: int
    keys: int
    e: int
    ev: int
    q_row: int
    k_row: int
    v_row: int
    o_row: int
    mask_row: int
    outer: Sequence[tuple[int, tuple[int, int, int, int, int]]]


def plan(s: Heads, scale: float, mask: str, causal: bool, groups: int = 0, sums: bool = False) -> list[Call]:
    """Addresses: q, k, v, o, mask, heads, sums. groups: of the array. sums: log(sum(exp(score))) of each query is a
    second result, contiguous."""
    et, evt, st = tiles(s.e), tiles(s.ev), tiles(s.keys)
    group = groups & ((1 if et > 1 else 0) | (2 if evt > 1 else 0))
    if et > MOST_WIDTH or evt > MOST_WIDTH:
        raise Unsupported(f"attention: heads of {max(s.e, s.ev)} elements; at most {MOST_WIDTH * LANES}")
    if st * (et + 2 * evt) * LANES > SCRATCH_ROWS or (st + SCORE_TILE + sums + 1) * LANES > SCRATCH_ROWS:
        raise Unsupported(f"attention: {s.keys} keys do not fit the scratchpads")
    if causal and s.length > s.keys:
        raise Unsupported("causal attention with more queries than keys")
    if mask != "none" and s.mask_row == 0:
        mask += "_row"
    span = 1 << (st * (et + 2 * evt) * TILE_BYTES - 1).bit_length()
    count = prod(loop[0] for loop in s.outer)
    double = count > 1 and 2 * span <= SCRATCH_ROWS * ROW_BYTES
    calls = []
    for first, blocks, rows in split(s.length):
        clear = s.e % LANES != 0 or s.ev % LANES != 0 or s.keys % LANES != 0
        cut = s.keys % LANES != 0 and not causal
        variant = Variant(et, evt, clear, cut, mask, causal, pad_rows(rows), double, group, sums)
        words = {
            "count": count,
            "span": span,
            "blocks": blocks,
            "share": -(-st // blocks),
            "first_tiles": first // LANES + 1,
            "tiles": st,
            "q_block": LANES * s.q_row * ELEMENT,
            "o_block": LANES * s.o_row * ELEMENT,
            "mask_block": LANES * s.mask_row * ELEMENT,
            "k_tile": LANES * s.k_row * ELEMENT,
            "v_tile": LANES * s.v_row * ELEMENT,
            "lanes": (1 << tail(s.keys)) - 1,
            "scale": bf16_bits(scale),
            "sums_head": s.length * ELEMENT,
            "sums_meta": metadata(Q_SID, 1, rows, rows),
        }

        words |= edge_words("k", K_SID, (s.keys, s.e, s.k_row)) | edge_words("v", K_SID, (s.keys, s.ev, s.v_row))
        mask_rows = 1 if mask == "none" or mask.endswith("_row") else rows
        for name, taken, width, row in (
            ("q", rows, s.e, s.q_row),
            ("o", rows, s.ev, s.o_row),
            ("mask", mask_rows, s.keys, s.mask_row),
        ):
            words[f"{name}_meta"] = tile_in(Q_SID, taken, LANES, (s.length, width, row))
            words[f"{name}_meta_c"] = tile_in(Q_SID, taken, tail(width), (s.length, width, row))
        rows_apart = {"q": s.q_row, "o": s.o_row, "mask": s.mask_row, "sums": 1}
        calls.append((variant, words, {name: first * step for name, step in rows_apart.items()}))
    return calls


def in_steps(count: int, pairs: bool) -> list[tuple[int, bool]]:
    """The first tile of each pass over so many, and whether the pass takes two."""
    step = 2 if pairs else 1
    return [(first, first + step <= count and pairs) for first in range(0, count, step)]


def head_table(s: Heads) -> list[int]:
    """For each head, in bytes, where its part of k, v, q, out and mask begins."""
    table = []
    for places in product(*(range(loop[0]) for loop in s.outer)):
        q, k, v, o, m = (sum(place * loop[1][i] for place, loop in zip(places, s.outer)) * ELEMENT for i in range(5))
        table += [k, v, q, o, m]
    return table


class _Attention(Kernel):
    v: Variant

    @classmethod
    def transfers(cls, variant: Variant) -> dict[str, Transfer]:
        keys = {name: tuple(f"{name}_{part}" for part in ("meta", "meta_c", "last", "last_c")) for name in "kv"}
        return {
            "q": Transfer("q", Q_SID, ("q_meta", "q_meta_c")),
            "mask": Transfer("mask", Q_SID, ("mask_meta", "mask_meta_c")),
            "o": Transfer("o", Q_SID, ("o_meta", "o_meta_c"), stores=True),
        } | {name: Transfer(name, K_SID, metas) for name, metas in keys.items()}

    @classmethod
    def scratch_rows(cls, variant: Variant, words: Mapping[str, Any]) -> int:
        return (SCORE_TILE + variant.sums + words["tiles"] + 1) * LANES

    def tile(self, number: int) -> Reg:
        return self.k.integer(number * TILE_BYTES)

    # -- keys and values ----------------------------------------------------------------------------------------------
    def entry(self, table: Reg, name: str) -> Reg:
        """Where the operand begins for the head whose entry `table` points to."""
        b = self.b
        offset = b.x()
        b.emit("lw.s", offset, 4 * "kvqom".index(name), table, access=(Access("heads", False),))
        return b.s("add.s", offset, self.p["mask" if name == "m" else name])

    def stream(self, table: Reg, buffer: Reg) -> None:
        """From here on `load_keys` brings this head's keys and values to `buffer`."""
        b, p = self.b, self.p
        b.mov(self.lines["k"], self.entry(table, "k"))
        b.mov(self.lines["v"], self.entry(table, "v"))
        b.mov(self.places["k"], buffer)
        b.emit("add.s", self.places["v"], buffer, self.key_bytes)
        b.mov(self.left, p["tiles"])
        for name, meta in self.metas.items():
            b.mov(meta, p[name])

    def load_keys(self, most: Reg) -> None:
        """The next `most` tiles of keys, or fewer if fewer are left, and of their values."""
        b, v, p = self.b, self.v, self.p
        count = b.s("addi.s", most, 0)
        with b.unless("ble.s", count, self.left):
            b.mov(count, self.left)
        one = b.li(1)
        with b.loop(count, skip_empty=True):
            with b.unless("bne.s", self.left, one):
                for name, meta in self.metas.items():
                    b.mov(meta, p[name.replace("meta", "last")])
            b.emit("addi.s", self.left, self.left, -1)
            for name, width in (("k", v.e), ("v", v.ev)):
                scratch, line = self.places[name], self.lines[name]
                for column, source in enumerate(self.apart(line, width, LANES * ELEMENT)):
                    if v.clear:
                        self.fill_rows(scratch, K_SID, name)
                    last = column == width - 1
                    b.tile_load(scratch, source, self.metas[f"{name}_meta" + ("_c" if last else "")], name)
                    b.emit("add.s", scratch, scratch, self.k.integer(TILE_BYTES))
                b.emit("add.s", line, line, p[f"{name}_tile"])

    def transpose_values(self, source: Reg, target: Reg) -> None:
        """[keys][ev] tiles become [ev][keys] tiles, transposed."""
        b, v = self.b, self.v
        units = self.unit_vectors()
        column_bytes = b.s("slli.s", self.p["tiles"], 11)
        read = b.s("addi.s", source, 0)
        with b.walk(self.p["tiles"], (target, self.k.integer(TILE_BYTES))) as (out,):
            for _ in range(v.ev):
                self.push_tile(self.load_tile_rows(read, K_SID, "v"))
                store_transposed(b, units, out, K_SID, "vt")
                b.emit("add.s", read, read, self.k.integer(TILE_BYTES))
                out = b.s("add.s", out, column_bytes)

    # -- heads --------------------------------------------------------------------------------------------------------
    def heads(self) -> None:
        b, v, p = self.b, self.v, self.p
        table, keys = b.s("addi.s", p["heads"], 0), b.s("addi.s", X0, 0)
        self.key_bytes = b.s("mul.s", p["tiles"], b.li(v.e * TILE_BYTES))
        value_bytes = b.s("mul.s", p["tiles"], b.li(v.ev * TILE_BYTES))
        self.left = b.s("addi.s", X0, 0)
        self.lines, self.places = ({name: b.s("addi.s", X0, 0) for name in "kv"} for _ in range(2))
        names = [f"{name}_meta" for name, width in (("k", v.e), ("v", v.ev)) if width > 1] + ["k_meta_c", "v_meta_c"]
        self.metas = {name: b.s("addi.s", X0, 0) for name in names}
        self.stream(table, keys)
        self.load_keys(p["tiles"])
        self.load_queries(self.entry(table, "q"))
        if v.sums:
            self.sums_head, self.sums_place = b.s("addi.s", p["sums"], 0), b.s("addi.s", X0, 0)
        with b.loop(p["count"]) as index:
            q, o = self.entry(table, "q"), self.entry(table, "o")
            if v.sums:
                b.mov(self.sums_place, self.sums_head)
                b.emit("add.s", self.sums_head, self.sums_head, p["sums_head"])
            m = self.entry(table, "m") if v.mask != "none" else None
            next_q = b.s("addi.s", X0, 0)
            b.emit("addi.s", table, table, 20)
            values = b.s("add.s", keys, self.key_bytes)
            transposed = b.s("add.s", values, value_bytes)
            self.transpose_values(values, transposed)
            with b.unless("bge.s", index, p["count"]):
                b.mov(next_q, self.entry(table, "q"))
                if v.double:
                    self.stream(table, b.s("xor.s", keys, p["span"]))
            count = b.s("addi.s", p["first_tiles" if v.causal else "tiles"], 0)
            with b.loop(p["blocks"]) as number:
                following = b.s("addi.s", next_q, 0)
                with b.unless("bge.s", number, p["blocks"]):
                    b.emit("add.s", following, q, p["q_block"])
                if v.double:
                    self.load_keys(p["share"])
                self.block(following, o, m, keys, transposed, count)
                b.emit("add.s", q, q, p["q_block"])
                b.emit("add.s", o, o, p["o_block"])
                if m is not None:
                    b.emit("add.s", m, m, p["mask_block"])
                if v.causal:
                    b.emit("addi.s", count, count, 1)
            if v.double:
                b.emit("xor.s", keys, keys, p["span"])
            else:
                with b.unless("bge.s", index, p["count"]):
                    self.stream(table, keys)
                    self.load_keys(p["tiles"])

    def load_queries(self, q: Reg) -> None:
        b, v, p = self.b, self.v, self.p
        for column, source in enumerate(self.apart(q, v.e, LANES * ELEMENT)):
            place = self.tile(Q_TILE + column)
            last = column == v.e - 1
            if last and v.clear:
                self.fill_rows(place, Q_SID, "q")
            b.tile_load(place, source, p["q_meta_c" if last else "q_meta"], "q")

    def sweep(self, count: Reg, body: Callable[[Reg, Reg, bool], None], step: int) -> None:
        """body(score tile, weight tile, last) over the block's tiles of keys."""
        b = self.b
        first, advance = self.tile(SCORE_TILE + self.v.sums), self.k.integer(step * TILE_BYTES)
        moves = (first, self.k.integer(TILE_BYTES)), (self.weights, advance)
        with b.walk(b.s("addi.s", count, -1), *moves, skip_empty=True) as (score, weights):
            body(score, weights, False)
        body(score, weights, True)

    def block(self, following: Reg, o: Reg, m: Reg | None, keys: Reg, values: Reg, count: Reg) -> None:
        """The queries in the scratchpad; those at `following`, unless it is 0, come in meanwhile."""
        b, v, p, k = self.b, self.v, self.p, self.k
        rows = range(v.rows)
        queries = {column: self.queries(column, pair) for column, pair in in_steps(v.e, bool(v.group & 1))}
        with b.unless("beq.s", following, X0):
            self.load_queries(following)
        most = [b.vec("add.vs", V0, k(-3.0e38)) for _ in rows]
        mask_pointer = None if m is None else b.s("addi.s", m, 0)

        def scores(score: Reg, weights: Reg, last: bool) -> None:
            sums = [V0] * v.rows
            for column, pair in in_steps(v.e, bool(v.group & 1)):
                place = weights if not column else b.s("add.s", weights, k.integer(column * TILE_BYTES))
                self.push_keys(place, pair)
                for r in rows:
                    out = b.v()
                    b.row(out, queries[column][r], sums[r], int(pair))
                    sums[r] = out
            extra = self.mask_rows(mask_pointer, last)
            for r in rows:
                x = sums[r]
                if extra is not None:
                    x = b.vec("add.vv", x, extra(r))
                if v.causal and last:
                    x = b.vec("add.vv", x, b.load_row(self.tile(CAUSAL_TILE), ROWS[r], Q_SID, "causal"))
                b.emit("add.vv", most[r], x, V0, mask=b.cmp("mgt.mvv", x, most[r], self.lanes if last else None))
                b.store_row(x, score, ROWS[r], Q_SID, "score", r)

        self.weights = keys
        self.sweep(count, scores, v.e)
        most = [b.vec("rmax.vi", x, 64) for x in most]
        self.push_tile([self.ones] * LANES)
        sums = [b.vec("add.vv", V0, V0) for _ in rows]

        def exponentials(score: Reg, _: Reg, last: bool) -> None:
            for r in rows:
                d = b.vec("sub.vv", b.load_row(score, ROWS[r], Q_SID, "score", r), most[r])
                e = in_lanes(b, self.lanes if last else None, "expi.vi", d)
                b.row(sums[r], e, sums[r])
                b.store_row(e, score, ROWS[r], Q_SID, "score", r)

        self.sweep(count, exponentials, 0)
        if v.sums:
            self.logarithms(most, sums)
        scale = [b.s("rcp.bf", b.s("vmov.vts", s, 0)) for s in sums]
        column_bytes = b.s("slli.s", p["tiles"], 11)
        base = b.s("addi.s", values, 0)
        for first, pair in in_steps(v.ev, bool(v.group & 2)):
            results = [self.zeros(pair) for _ in rows]

            def product(score: Reg, weights: Reg, last: bool, results: list[Reg] = results, pair: bool = pair) -> None:
                self.push_values(weights, column_bytes if pair else None)
                for r in rows:
                    probabilities = b.load_row(score, ROWS[r], Q_SID, "score", r)
                    b.row(results[r], probabilities, results[r], 2 * pair)

            self.weights = base
            self.sweep(count, product, 1)
            for column in range(first, first + 1 + pair):
                out = [x.parts[column - first] for x in results]
                place = self.tile(OUT_TILE + column)
                for r in rows:
                    if v.mask == "none":
                        y = b.vec("mul.vs", out[r], scale[r])
                    else:  # a query that may look at no key gives 0
                        y = in_lanes(b, b.cmp("mgt.mvs", most[r], k(MASKED / 10)), "mul.vs", out[r], scale[r])
                    b.store_row(y, place, ROWS[r], Q_SID, "o", r)
                target = o if column == 0 else b.s("addi.s", o, column * LANES * ELEMENT)
                b.tile_store(place, target, p["o_meta_c" if column == v.ev - 1 else "o_meta"], "o", "o in DRAM")
                base = b.s("add.s", base, column_bytes)

    def logarithms(self, most: list[Reg], sums: list[Reg]) -> None:
        """most + log(sum) of each query, a lane each. The bits of a sum as an integer are about its logarithm, which
        two steps of Newton's method for exp(y) = sum make exact to BF16."""
        b, k = self.b, self.k
        largest, total, y = (b.vec("add.vv", V0, V0) for _ in range(3))
        one, unit = k.integer(0x3F800000), k(math.log(2) * 2.0**-23)
        lane = b.m()
        for r in range(self.v.rows):
            b.emit("mv.stm", lane, b.li(1 << r if r < LANES - 1 else -(1 << r)))
            guess = b.s("mul.bf", b.s("stbf.s", b.s("sub.s", b.s("vmov.vts", sums[r], 0), one)), unit)
            b.emit("add.vs", y, V0, guess, mask=lane)
            b.emit("add.vv", total, sums[r], V0, mask=lane)
            b.emit("add.vv", largest, most[r], V0, mask=lane)
        for _ in range(2):
            away = b.vec("mul.vv", total, b.vec("expi.vi", b.vec("sub.vv", V0, y)))
            y = b.vec("add.vv", y, b.vec("sub.vs", away, k(1.0)))
        found = b.vec("add.vs", V0, k(-math.inf))  # of a query that may look at no key
        b.emit("add.vv", found, largest, y, mask=b.cmp("mgt.mvs", largest, k(MASKED / 10)))
        place = self.tile(SCORE_TILE)
        b.store_row(found, place, ROWS[0], Q_SID, "sums", 0)
        b.tile_store(place, self.sums_place, self.p["sums_meta"], "sums", "sums in DRAM")
        b.emit("addi.s", self.sums_place, self.sums_place, LANES * ELEMENT)

    def queries(self, column: int, pair: bool) -> list[Reg]:
        """A tile of scaled queries, or pairs of two."""
        b, found = self.b, []
        for r in range(self.v.rows):
            out = b.vector(pair)
            for i, half in enumerate(out.parts):
                row = b.load_row(self.tile(Q_TILE + column + i), ROWS[r], Q_SID, "q")
                b.emit("mul.vs", half, row, self.p["scale"])
            found.append(out)
        return found

    def zeros(self, pair: bool) -> Reg:
        out = self.b.vector(pair)
        for half in out.parts:
            self.b.emit("add.vv", half, V0, V0)
        return out

    def push_keys(self, place: Reg, pair: bool) -> None:
        """32 keys, of which the array takes a tile, or two."""
        if not pair:
            self.push_tile(self.load_tile_rows(place, K_SID, "k"))
            return
        b, behind = self.b, self.b.s("add.s", place, self.k.integer(TILE_BYTES))

        def load(column: int) -> Reg:
            out = b.pair()
            b.load_row(place, ROWS[column], K_SID, "k", out=out)
            b.load_row(behind, ROWS[column], K_SID, "k", out=out.high)
            return out

        self.push_ahead(load, LANES, True)

    def push_values(self, place: Reg, column_bytes: Reg | None) -> None:
        """A tile of transposed values; with `column_bytes` also that of the next 32 elements."""
        if column_bytes is None:
            self.push_tile(self.load_tile_rows(place, K_SID, "vt"))
            return
        b = self.b
        places = (place, b.s("add.s", place, column_bytes))
        self.push_ahead(lambda c: b.load_row(places[c // LANES], ROWS[c % LANES], K_SID, "vt"), 2 * LANES, False)

    def mask_rows(self, pointer: Reg | None, last: bool) -> Callable[[int], Reg] | None:
        """What is added to row r of a tile of scores."""
        b, v, k = self.b, self.v, self.k
        if pointer is None:
            return None
        place = self.tile(MASK_TILE)
        b.tile_load(place, pointer, self.p["mask_meta_c" if last else "mask_meta"], "mask")
        if not last:
            b.emit("addi.s", pointer, pointer, LANES * ELEMENT)

        def row(r: int) -> Reg:
            x = b.load_row(place, ROWS[r], Q_SID, "mask")
            return b.vec("mul.vs", b.vec("sub.vs", x, k(1.0)), k(-MASKED)) if v.mask.startswith("bool") else x

        if v.mask.endswith("_row"):
            shared = row(0)
            return lambda r: shared
        return row

    def causal_tile(self) -> None:
        """Row r: MASKED in the lanes behind r."""
        b = self.b
        place = self.tile(CAUSAL_TILE)
        bits = b.li(-2)
        for row in range(LANES):
            b.store_row(in_lanes(b, b.mask(bits), "add.vs", V0, self.k(MASKED)), place, ROWS[row], Q_SID, "causal", row)
            if row < LANES - 1:
                bits = b.s("slli.s", bits, 1)

    def emit(self) -> None:
        b, v = self.b, self.v
        self.ones = self.ones_vector()
        self.lanes = b.mask(self.p["lanes"]) if v.cut else None
        if v.causal:
            self.causal_tile()
        self.heads()


build = _Attention.build
