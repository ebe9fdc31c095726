# SPDX-License-Identifier: BSD-3-Clause
"""Pooling and depthwise convolution of 32 channels of an image at a time.

Sums go through the array with the identity as weights, so that they are kept in FP32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

from torch_atalla.isa.geometry import LANES

from ..vir import ROWS, V0, X0, Reg, bf16_bits
from .activation import ACTIVATIONS
from .common import FARTHEST
from .image import IMAGE_SID, Image, ImageKernel
from .pointwise import Unsupported
from .tiling import (
    ELEMENT,
    ROW_BYTES,
    SCRATCH_ROWS,
    TILE_BYTES,
    Call,
    NamedVariant,
    metadata,
    round_rows,
    split,
    tail,
    tile_in,
    tile_words,
)

OUT_SID = 1
WEIGHT_ROW = 2 * LANES  # of scratchpad 1, behind two buffers for results
MOST_TAPS = 1024
BIAS_ROW = WEIGHT_ROW + MOST_TAPS


@dataclass(frozen=True)
class Variant(NamedVariant):
    kernel = "plane"
    kind: str  # "max", "sum", "dot" (weights lane by lane)
    whole: bool  # an output line has pieces of 32 pixels
    rest: int  # pixels of the last piece that are computed
    step: int  # pixels from a window to the one on its right
    border: bool
    bias: bool
    activation: str | None
    lanes: int = LANES  # of a sum: those that hold channels. The array mixes lanes, so that the others have to be 0


def plan(kind: str, s: Image, scale: float = 1.0, bias: bool = False, activation: str | None = None) -> list[Call]:
    """Addresses: o, x, w, bias."""
    taps = (s.kernel[0] * s.kernel[1], s.channels, s.channels)
    out_line = (s.out_size[1], s.channels, s.out[2])
    # Behind the planes, windows of pixels that nobody wants, and the last stores of the border.
    bands = list(s.bands(SCRATCH_ROWS - LANES * s.stride[1] - LANES))
    if not bands or taps[0] > MOST_TAPS:
        raise Unsupported(f"windows of {s.kernel[0]} x {s.kernel[1]} on lines of {s.size[1]} pixels")
    calls = []
    for band, (c0, cn, ct) in product(bands, split(s.channels)):
        if band.have < 1:
            raise Unsupported("windows that see the border alone")
        rest, lanes = round_rows(tail(s.out_size[1])), LANES if kind == "max" else ct
        variant = Variant(kind, s.out_size[1] > LANES, rest, s.stride[1], band.border, bias, activation, lanes)
        words = band.words(ct, 1, early=2, later=1) | {
            "images": s.images,
            "x_image": s.source[0] * ELEMENT,
            "o_image": s.out[0] * ELEMENT,
            "tiles": cn,
            "height": band.height,
            "o_line": s.out[1] * ELEMENT,
            "taps_down": s.kernel[0],
            "taps_right": s.kernel[1],
            "tap_down": s.dilation[0] * s.width * ROW_BYTES,
            "tap_right": s.dilation[1] * ROW_BYTES,
            "bias_meta": metadata(OUT_SID, 1, ct, ct),
            "scale": bf16_bits(scale),
        }
        for name, matrix in (("o", out_line), ("w", taps)):
            tile = partial(tile_in, OUT_SID, cols=ct, matrix=matrix)
            words |= tile_words(name, matrix[0], LANES * matrix[2] * ELEMENT, tile)
        x0 = max(0, band.top) * s.source[1] + c0
        calls.append((variant, words, {"o": band.first * s.out[1] + c0, "x": x0, "w": c0, "bias": c0}))
    return calls


class _Plane(ImageKernel):
    v: Variant

    def plane(self, pointers: dict[str, Reg]) -> None:
        """32 channels of one image."""
        b, v, p = self.b, self.v, self.p
        if "w" in pointers:
            self.load_tiles(self.weights, pointers["w"], "w", "w")
        if v.bias:
            b.tile_load(self.bias, pointers["bias"], p["bias_meta"], "bias")
        self.start_image(pointers["x"], X0)
        with b.walk(p["height"], (X0, p["line"]), (pointers["o"], p["o_line"])) as (place, out):
            self.next_lines()
            if v.whole:
                across = (place, self.k.integer(LANES * v.step * ROW_BYTES)), (out, p["o_step"])
                with b.walk(p["o_whole"], *across) as (place, out):
                    self.piece(LANES, place, out, p["o_meta"])
            self.piece(v.rest, place, out, p["o_last"])

    def piece(self, rows: int, place: Reg, out: Reg, meta: Reg) -> None:
        """Neighbouring windows of one output line."""
        b, v, p, k = self.b, self.v, self.p, self.k
        start = b.load_row(self.bias, X0, OUT_SID, "bias") if v.bias else V0
        totals = self.reduce(v.kind, rows, lambda add: self.taps(rows, place, add), start)
        b.emit("xor.s", self.stage, self.stage, k.integer(TILE_BYTES))
        for row, total in enumerate(totals):
            y = total if v.kind == "max" else b.vec("mul.vs", total, p["scale"])
            if v.activation is not None:
                y = ACTIVATIONS[v.activation](b, k, y)
            b.store_row(y, self.stage, ROWS[row], OUT_SID, "o", row)
        b.tile_store(self.stage, out, meta, "o", "o in DRAM")

    def taps(self, rows: int, place: Reg, add: Callable[[int, Reg], None]) -> None:
        """What the windows at `place` look at."""
        b, v, p, k = self.b, self.v, self.p, self.k
        index = b.s("addi.s", X0, 0)
        with (
            b.walk(p["taps_down"], (place, p["tap_down"])) as (top,),
            b.walk(p["taps_right"], (top, p["tap_right"])) as (tap,),
        ):
            weight = None
            if v.kind == "dot":
                weight = b.load_row(self.weights, index, OUT_SID, "w", cols=v.lanes)
                b.emit("addi.s", index, index, 1)
            for row in range(rows):
                pixel = row * v.step
                number = ROWS[pixel] if pixel < LANES else k.integer(pixel)
                value = b.load_row(tap, number, IMAGE_SID, self.image_region, cols=v.lanes)
                add(row, value if weight is None else b.vec("mul.vv", value, weight))

    def emit(self) -> None:
        b, v, p = self.b, self.v, self.p
        self.k.integer(TILE_BYTES)
        self.weights, self.bias = b.li(WEIGHT_ROW * ROW_BYTES), b.li(BIAS_ROW * ROW_BYTES)
        self.stage = b.s("addi.s", X0, 0)
        if v.kind != "max":
            self.push_tile(self.unit_vectors())
        if v.border:
            value = b.vec("add.vs", V0, self.k(FARTHEST[v.kind])) if v.kind in FARTHEST else V0
            self.fill_border(X0, value)
        image: dict[str, Reg] = {name: b.s("addi.s", p[name], 0) for name in ("o", "x")}
        with b.loop(p["images"]):
            names = ["o", "x"] + ["w"] * (v.kind == "dot") + ["bias"] * v.bias
            mine = {name: b.s("addi.s", image.get(name, p[name]), 0) for name in names}
            with b.loop(p["tiles"]):
                self.plane(mine)
                for pointer in mine.values():
                    b.emit("addi.s", pointer, pointer, LANES * ELEMENT)
            for name, pointer in image.items():
                b.emit("add.s", pointer, pointer, p[f"{name}_image"])


build = _Plane.build
