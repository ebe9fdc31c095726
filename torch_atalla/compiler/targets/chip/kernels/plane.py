# SPDX-License-Identifier: BSD-3-Clause
"""Pooling and depthwise convolution: 32 channels of an image stay in scratchpad 0, a row a pixel, with their border.

Every line comes once, a few lines before the first window that looks at it; a border is written there, not read.
Images that do not fit are cut into bands of output lines. Sums go through the array with the identity as weights, so
that they are kept in FP32.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Reg, bf16_bits
from .activation import ACTIVATIONS
from .common import (
    ELEMENT,
    ROW_BYTES,
    SCRATCH_ROWS,
    TILE_BYTES,
    Kernel,
    add_apart,
    marks,
    metadata,
    round_rows,
    split,
    tail,
    take_extreme,
    tile_in,
)
from .pointwise import Unsupported

IN_SID, OUT_SID = 0, 1
WEIGHT_ROW = 2 * LANES  # of scratchpad 1, behind two buffers for results
MOST_TAPS = 1024
BIAS_ROW = WEIGHT_ROW + MOST_TAPS
BORDER = {"max": float("-inf"), "sum": 0.0, "dot": 0.0}


@dataclass(frozen=True)
class Variant:
    kind: str  # "max", "sum", "dot" (weights lane by lane)
    whole: bool  # an output line has pieces of 32 pixels
    rest: int  # pixels of the last piece that are computed
    step: int  # pixels from a window to the one on its right
    border: bool
    bias: bool
    activation: str | None
    lanes: int = LANES  # of a sum: those that hold channels. The array mixes lanes, so that the others have to be 0

    @property
    def name(self) -> str:
        flags = marks(_border=self.border, _bias=self.bias) + (f"_{self.lanes}" if self.lanes < LANES else "")
        return f"plane_{self.kind}_{'32+' * self.whole}{self.rest}s{self.step}{flags}_{self.activation or 'none'}"


@dataclass(frozen=True)
class Planes:
    """Sizes in pixels; pairs are (down, right). Distances in elements, from one image, line and pixel to the next."""

    images: int
    channels: int
    size: tuple[int, int]
    out_size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]  # above and on the left; below and on the right as far as the windows reach
    dilation: tuple[int, int]
    source: tuple[int, int, int]
    out: tuple[int, int, int]


Call = tuple[Variant, dict[str, int], dict[str, int]]


def plan(kind: str, s: Planes, scale: float = 1.0, bias: bool = False, activation: str | None = None) -> list[Call]:
    """Calls: variant, words but for addresses (o, x, w, bias), and the offset of each address in elements."""
    window = (s.kernel[0] - 1) * s.dilation[0] + 1
    reach = (s.out_size[1] - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1
    width = max(reach, s.padding[1] + 1)
    taken = min(s.size[1], width - s.padding[1])
    room = SCRATCH_ROWS - LANES * s.stride[1] - LANES  # windows of pixels that nobody wants, the border's last stores
    lines = min(s.out_size[0], (room // width - window) // s.stride[0] + 1)
    if lines < 1 or s.kernel[0] * s.kernel[1] > MOST_TAPS:
        raise Unsupported(f"windows of {s.kernel[0]} x {s.kernel[1]} on lines of {s.size[1]} pixels")
    bands = -(-s.out_size[0] // lines)
    lines = -(-s.out_size[0] // bands)
    line, out_line = (taken, s.channels, s.source[2]), (s.out_size[1], s.channels, s.out[2])
    taps = (s.kernel[0] * s.kernel[1], s.channels, s.channels)
    calls = []
    for first, (c0, cn, ct) in product(range(0, s.out_size[0], lines), split(s.channels)):
        top = first * s.stride[0] - s.padding[0]
        height = min(lines, s.out_size[0] - first)
        needed = (height - 1) * s.stride[0] + window
        above, have = max(0, -top), min(s.size[0], top + needed) - max(0, top)
        if have < 1:
            raise Unsupported("windows that see the border alone")
        early = min(have, max(1, window + s.stride[0] - above))
        rest, border = round_rows(tail(s.out_size[1])), (needed, width) != (have, taken)
        lanes = LANES if kind == "max" else ct
        variant = Variant(kind, s.out_size[1] > LANES, rest, s.stride[1], border, bias, activation, lanes)
        words = {
            "images": s.images,
            "x_image": s.source[0] * ELEMENT,
            "o_image": s.out[0] * ELEMENT,
            "tiles": cn,
            "border_tiles": -(-needed * width // LANES),
            "origin": (above * width + s.padding[1]) * ROW_BYTES,
            "row": width * ROW_BYTES,
            "early": early,
            "later": have - early,
            "next": s.stride[0],
            "height": height,
            "x_line": s.source[1] * ELEMENT,
            "x_piece": LANES * s.source[2] * ELEMENT,
            "x_whole": (taken - 1) // LANES,
            "x_meta": tile_in(IN_SID, LANES, ct, line),
            "x_last": tile_in(IN_SID, tail(taken), ct, line),
            "o_line": s.out[1] * ELEMENT,
            "o_piece": LANES * s.out[2] * ELEMENT,
            "o_whole": (s.out_size[1] - 1) // LANES,
            "o_meta": tile_in(OUT_SID, LANES, ct, out_line),
            "o_last": tile_in(OUT_SID, tail(s.out_size[1]), ct, out_line),
            "down": s.stride[0] * width * ROW_BYTES,
            "taps_down": s.kernel[0],
            "taps_right": s.kernel[1],
            "tap_down": s.dilation[0] * width * ROW_BYTES,
            "tap_right": s.dilation[1] * ROW_BYTES,
            "w_step": LANES * s.channels * ELEMENT,
            "w_whole": (s.kernel[0] * s.kernel[1] - 1) // LANES,
            "w_meta": tile_in(OUT_SID, LANES, ct, taps),
            "w_last": tile_in(OUT_SID, tail(taps[0]), ct, taps),
            "bias_meta": metadata(OUT_SID, 1, ct, ct),
            "scale": bf16_bits(scale),
        }
        x0 = max(0, top) * s.source[1] + c0
        calls.append((variant, words, {"o": first * s.out[1] + c0, "x": x0, "w": c0, "bias": c0}))
    return calls


class _Plane(Kernel):
    v: Variant

    def fill(self) -> None:
        """The border's value everywhere; the images come on top of it."""
        b, v = self.b, self.v
        value = b.vec("add.vs", V0, self.k(BORDER[v.kind])) if BORDER[v.kind] else V0
        place = b.s("addi.s", X0, 0)
        with b.loop(self.p["border_tiles"]):
            for row in range(LANES):
                b.store_row(value, place, ROWS[row], IN_SID, "x", row)
            b.emit("add.s", place, place, self.k.integer(TILE_BYTES))

    def load_lines(self, count: Reg) -> None:
        b, p = self.b, self.p
        with b.loop(count, skip_empty=True):
            self.load_tiles(self.line, self.source, "x", "x_piece", "x")
            b.emit("add.s", self.line, self.line, p["row"])
            b.emit("add.s", self.source, self.source, p["x_line"])

    def plane(self, pointers: dict[str, Reg]) -> None:
        """32 channels of one image."""
        b, v, p = self.b, self.v, self.p
        if "w" in pointers:
            self.load_tiles(self.weights, pointers["w"], "w", "w_step", "w")
        if v.bias:
            b.tile_load(self.bias, pointers["bias"], p["bias_meta"], "bias")
        self.source, self.line = b.s("addi.s", pointers["x"], 0), b.s("addi.s", p["origin"], 0)
        left, base, line = b.s("addi.s", p["later"], 0), b.s("addi.s", X0, 0), b.s("addi.s", pointers["o"], 0)
        self.load_lines(p["early"])
        with b.loop(p["height"]):
            self.load_lines(self.share(p["next"], left))
            place, out = b.s("addi.s", base, 0), b.s("addi.s", line, 0)
            if v.whole:
                with b.loop(p["o_whole"]):
                    self.piece(LANES, place, out, p["o_meta"])
                    b.emit("add.s", place, place, self.k.integer(LANES * v.step * ROW_BYTES))
                    b.emit("add.s", out, out, p["o_piece"])
            self.piece(v.rest, place, out, p["o_last"])
            b.emit("add.s", base, base, p["down"])
            b.emit("add.s", line, line, p["o_line"])

    def piece(self, rows: int, place: Reg, out: Reg, meta: Reg) -> None:
        """Neighbouring windows of one output line."""
        b, v, p, k = self.b, self.v, self.p, self.k
        start = b.load_row(self.bias, X0, OUT_SID, "bias") if v.bias else V0
        fill = ("add.vs", V0, k(float("-inf"))) if v.kind == "max" else ("add.vv", start, V0)
        totals = [b.vec(*fill) for _ in range(rows)]
        specials: list[Reg] = []
        self.taps(totals, place, specials)
        if v.kind != "max":
            self.add_apart_again(totals, specials, lambda: self.taps(totals, place, specials), start)
        b.emit("xor.s", self.stage, self.stage, k.integer(TILE_BYTES))
        for row, total in enumerate(totals):
            y = total if v.kind == "max" else b.vec("mul.vs", total, p["scale"])
            if v.activation is not None:
                y = ACTIVATIONS[v.activation](b, k, y)
            b.store_row(y, self.stage, ROWS[row], OUT_SID, "o", row)
        b.tile_store(self.stage, out, meta, "o", "o in DRAM")

    def taps(self, totals: list[Reg], place: Reg, specials: list[Reg]) -> None:
        """Adds what the windows at `place` look at. specials: what is not finite, apart."""
        b, v, p, k = self.b, self.v, self.p, self.k
        index = b.s("addi.s", X0, 0)
        top = b.s("addi.s", place, 0)
        with b.loop(p["taps_down"]):
            tap = b.s("addi.s", top, 0)
            with b.loop(p["taps_right"]):
                weight = None
                if v.kind == "dot":
                    weight = b.load_row(self.weights, index, OUT_SID, "w", cols=v.lanes)
                    b.emit("addi.s", index, index, 1)
                for row, total in enumerate(totals):
                    pixel = row * v.step
                    number = ROWS[pixel] if pixel < LANES else k.integer(pixel)
                    value = b.load_row(tap, number, IN_SID, "x", cols=v.lanes)
                    if v.kind == "max":
                        take_extreme(b, v.kind, total, value)
                        continue
                    value = value if weight is None else b.vec("mul.vv", value, weight)
                    if specials:
                        add_apart(b, value, total, specials[row])
                    else:
                        b.row(total, value, total)
                b.emit("add.s", tap, tap, p["tap_right"])
            b.emit("add.s", top, top, p["tap_down"])

    def parameters(self) -> None:
        v = self.v
        names = ["o", "x"] + (["w", "w_step", "w_whole", "w_meta", "w_last"] if v.kind == "dot" else [])
        names += (["bias", "bias_meta"] if v.bias else []) + (["border_tiles"] if v.border else [])
        names += ["images", "x_image", "o_image", "tiles", "origin", "row", "early", "later", "next", "height"]
        names += ["x_line", "x_piece", "x_whole", "x_meta", "x_last", "o_line", "o_last", "down"]
        names += ["o_piece", "o_whole", "o_meta"] if v.whole else []
        names += ["taps_down", "taps_right", "tap_down", "tap_right"] + (["scale"] if v.kind != "max" else [])
        self.load_parameters(names)

    def emit(self) -> None:
        b, v = self.b, self.v
        self.parameters()
        p = self.p
        self.k.integer(TILE_BYTES)
        self.weights, self.bias = b.li(WEIGHT_ROW * ROW_BYTES), b.li(BIAS_ROW * ROW_BYTES)
        self.stage = b.s("addi.s", X0, 0)
        if v.kind != "max":
            self.push_tile(self.unit_vectors())
        if v.border:
            self.fill()
        image: dict[str, Reg] = {name: b.s("addi.s", p[name], 0) for name in ("o", "x")}
        with b.loop(p["images"]):
            mine: dict[str, Reg] = {}
            for name in ("o", "x", "w", "bias"):
                if name in p:
                    mine[name] = b.s("addi.s", image.get(name, p[name]), 0)
            with b.loop(p["tiles"]):
                self.plane(mine)
                for pointer in mine.values():
                    b.emit("addi.s", pointer, pointer, LANES * ELEMENT)
            for name, pointer in image.items():
                b.emit("add.s", pointer, pointer, p[f"{name}_image"])


build = _Plane.build
