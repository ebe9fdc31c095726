# SPDX-License-Identifier: BSD-3-Clause
"""Shapes of matrix products and convolutions: how they are cut into blocks and panels, and a descriptor's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch_atalla.isa.geometry import LANES

from ..vir import bf16_bits
from .image import Band, Image
from .tiling import (
    ELEMENT,
    ROW_BYTES,
    SCRATCH_ROWS,
    TILE_BYTES,
    NamedVariant,
    edge_words,
    metadata,
    round_rows,
    tail,
    tile_words,
    tiles,
)

# Row tiles of a full block by the pairs of a pass: 192 accumulators, 32 weights, 30 rows on their way. With pairs of
# results, 96 rows have as many accumulators; pairs of vectors of k need twice as many registers on their way.
MAIN_TILES, TILES_BY_GROUP = 6, (6, 5, 3, 3)
STAGE_ROWS = 2 * MAIN_TILES * LANES  # scratchpad 0 begins with two buffers for results
PANEL_TILES = 16  # of W, where A stays: little more than an SDMA engine queues, so that loads hide behind products
BIAS_ROWS = 1024  # scratchpad 1 begins with the bias, a row a column tile
RESIDUAL_ROW = BIAS_ROWS - STAGE_ROWS  # and two buffers for tiles of a residual, behind fewer rows of bias
ROOM_W = SCRATCH_ROWS - BIAS_ROWS - 2 * LANES  # for panels of W in passes of pairs, which read two tiles too many
A_SID, W_SID = 0, 1


@dataclass(frozen=True)
class Variant(NamedVariant):
    """What the code depends on; sizes and addresses are the descriptor's."""

    kernel = "gemm"
    full_blocks: bool  # whether there are blocks of MAIN_TILES before the last one
    main: int  # rows of those
    rest: int  # rows of the last block, 1 to 192
    # "packed": tiles one after another; "beside": in rows of tiles (place_tiles); "rows": [n, k], k innermost;
    # "columns": [k, n], n innermost
    weights: str
    k_tail: bool  # tiles of A or W have lanes that no element fills and that have to be 0
    one_step: bool  # k <= 32
    panels: str  # "one", "double" buffered, "single" buffered
    double_a: bool
    resident: bool  # several blocks, and all of them stay in scratchpad 0
    bias: bool
    activation: str | None
    scaled: bool
    batched: bool
    image: int = 0  # output columns of a convolution whose rows are pixels, or 0 for a matrix
    pixel_step: int = 0  # image rows from an output pixel to the next, where the image stays in the scratchpad; else 0
    border: bool = False  # there is one around the image
    residual: bool = False  # added to the result; sizes and strides are the result's
    lanes: int = LANES  # of a row of A that are read; what lies behind them in memory belongs to other pixels
    group: int = 0  # of gemm.vv: 1 for passes of two tiles of k, 2 for two column tiles
    odd: bool = False  # with passes of two tiles of k: the first is of one
    repeats: bool = False  # with a group: there are passes behind the first

    @property
    def deep(self) -> bool:
        """Whether a pass takes two tiles of k."""
        return bool(self.group & 1)

    @property
    def wide(self) -> bool:
        """Whether a pass takes two column tiles."""
        return bool(self.group & 2)

    @property
    def stepwise(self) -> bool:
        """Whether the next panel comes tile by tile, while the current one is used."""
        return self.panels == "double" and self.in_tiles

    @property
    def in_tiles(self) -> bool:
        """Whether W is stored tile by tile."""
        return self.weights in ("packed", "beside")


@dataclass(frozen=True)
class Matrices:
    """Sizes and strides in elements. a_row: from one row of A to the next; w_row: of W as it lies in memory."""

    m: int
    n: int
    k: int
    a_row: int
    w_row: int
    c_row: int
    batch: int = 1
    a_batch: int = 0
    w_batch: int = 0
    c_batch: int = 0


def pairs_of(groups: int, kt: int, nt: int, line: int = 1) -> int:
    """The group of a product's passes, of those of the array, for so many tiles of k and column tiles, and blocks of at
    least `line` rows. Column tiles are paired where two pairs, or all there are, fit the scratchpad."""
    wide = nt > 1 and min(4, nt + nt % 2) * kt * LANES <= ROOM_W
    found = groups & ((1 if kt > 1 else 0) | (2 if wide else 0))
    while line > TILES_BY_GROUP[found] * LANES and found:
        found = 1 if found == 3 else 0
    return found


def plan(
    s: Matrices, weights: str, bias: bool, activation: str | None, alpha: float, stays: bool = True, group: int = 0
) -> tuple[Variant, dict[str, int]]:
    """The variant of the code, and the descriptor's words except for addresses (a, w, c, bias).

    stays: A may stay in scratchpad 0 for all panels of W where it fits. Then small panels come while others are used.
    group: as `pairs_of` gives it.
    """
    kt, nt, mt = tiles(s.k), tiles(s.n), tiles(s.m)
    room_a = SCRATCH_ROWS - STAGE_ROWS
    room_w = SCRATCH_ROWS - BIAS_ROWS - LANES if group == 0 else ROOM_W
    main = min(TILES_BY_GROUP[group], room_a // (kt * LANES))
    if main == 0 or kt * LANES > room_w:
        raise ValueError(f"gemm: k = {s.k} does not fit the scratchpads; at most {room_w // LANES * LANES}")
    if bias and nt > BIAS_ROWS:
        raise ValueError(f"gemm: n = {s.n} with a bias; at most {BIAS_ROWS * LANES}")
    if mt > main:  # as many blocks as needed, of sizes as equal as possible from above
        blocks = -(-mt // main)
        main = -(-mt // blocks) if (blocks - 1) * -(-mt // blocks) < mt else main
    full = (mt - 1) // main
    rest_tiles = mt - full * main
    rest = (rest_tiles - 1) * LANES + round_rows(tail(s.m))
    resident = stays and full > 0 and (full * main + rest_tiles) * kt * LANES <= room_a
    double_a = not resident and full > 0 and 2 * main * kt * LANES <= room_a
    whole = room_w // (kt * LANES)
    few = max(1, PANEL_TILES // kt)
    if group & 2:  # panels of whole pairs
        few, whole = max(2, few - few % 2), whole - whole % 2
    stays = resident or (stays and not full)
    if nt <= (few if stays else whole):
        panel, panels = nt, "one"
    elif whole >= 2 * few and stays:
        panel, panels = -(-nt // -(-nt // few)), "double"
    else:  # A comes again for every panel: few large panels move less
        panel, panels = -(-nt // -(-nt // whole)), "single"
    if group & 2 and panels != "one":
        panel += panel % 2
    count = -(-nt // panel)
    variant = Variant(
        full_blocks=full > 0,
        main=main * LANES if full else 0,
        rest=rest,
        weights=weights,
        k_tail=s.k % LANES != 0 or (weights == "columns" and s.n % LANES != 0),
        one_step=kt == 1,
        panels=panels,
        double_a=double_a,
        resident=resident,
        bias=bias,
        activation=activation,
        scaled=alpha != 1.0,
        batched=s.batch > 1,
        group=group,
        odd=bool(group & 1) and kt % 2 == 1,
        repeats=kt > 2 or (kt == 2 and not group & 1),
    )
    step = {"packed": TILE_BYTES, "rows": LANES * ELEMENT, "columns": LANES * s.w_row * ELEMENT}[weights]
    n_step = {"packed": kt * TILE_BYTES, "rows": LANES * s.w_row * ELEMENT, "columns": LANES * ELEMENT}[weights]
    words = {
        "a_span": main * kt * TILE_BYTES,
        "kt": kt,
        "k_bytes": kt * TILE_BYTES,
        "k_whole": kt - 1,
        "k_passes": (kt - 1) // 2 if group & 1 else kt - 1,  # behind the first
        "nt": nt,
        "panel": panel,
        "panels": count,
        "pace": full + 1,
        "panel_bytes": panel * kt * TILE_BYTES,
        "full": full,
        "a_tile": LANES * s.a_row * ELEMENT,
        "a_block": main * LANES * s.a_row * ELEMENT,
        "c_tile": LANES * s.c_row * ELEMENT,
        "c_block": main * LANES * s.c_row * ELEMENT,
        "w_k": step,
        "w_n": n_step,
        "w_panel": panel * n_step,
        "batch": s.batch,
        "a_batch": s.a_batch * ELEMENT,
        "w_batch": s.w_batch * ELEMENT,
        "c_batch": s.c_batch * ELEMENT,
        "alpha": bf16_bits(alpha),
    }
    words |= tile_words("bias", nt, TILE_BYTES, lambda count: metadata(W_SID, count, LANES, LANES))
    words |= edge_words("a", A_SID, (s.m, s.k, s.a_row), "k") | edge_words("c", A_SID, (s.m, s.n, s.c_row), "n")
    if weights == "packed":
        words["w_meta"] = metadata(W_SID, LANES, LANES, LANES)
    elif weights == "rows":
        words |= edge_words("w", W_SID, (s.n, s.k, s.w_row), "k")
    else:  # its rows are k
        found = edge_words("w", W_SID, (s.k, s.n, s.w_row), "k")
        words |= found | {"w_last": found["w_meta_k"], "w_meta_k": found["w_last"]}
    return variant, words


def place_tiles(variant: Variant, words: dict[str, int], beside: int) -> tuple[Variant, dict[str, int]]:
    """With `beside` (a power of two) tiles of packed weights side by side, each in rows of 64 bytes."""
    if beside == 1:
        return variant, words
    group = beside * TILE_BYTES
    places = {
        "w_meta": metadata(W_SID, LANES, LANES, beside * LANES),
        "w_group": -group & 0xFFFFFFFF,  # a mask: the bytes of the groups before
        "w_place": (beside - 1) * ROW_BYTES,  # and of the place in a group, which is 32 times as far
    }
    return replace(variant, weights="beside"), words | places


@dataclass(frozen=True)
class Product:
    """A call for a convolution. starts: of its addresses in image and result, in elements. deltas: bytes from one step
    of k to the next, which the address "deltas" names; none where tiles of k follow each other."""

    variant: Variant
    words: dict[str, int]
    starts: dict[str, int]
    deltas: Sequence[int] = ()


@dataclass(frozen=True)
class Pixels:
    """A convolution over an image [batch, h, w, c] that is padded already; distances in elements.

    Steps of k: `kh` x `kw` runs of `run` neighbouring elements, each cut into tiles of 32 whose surplus meets zero
    weights.
    """

    batch: int
    oh: int
    ow: int
    n: int  # output channels
    kh: int
    kw: int
    run: int
    a_kh: int  # from one tap to the one below
    a_kw: int  # to the one on the right
    a_line: int  # from one output line's pixels to the next one's
    a_pixel: int  # from one output pixel to the next
    a_batch: int
    c_row: int
    c_batch: int


def longest_line(kt: int, nt: int, groups: int = 0) -> int:
    """Output pixels that a block of a convolution has room for, under so many tiles of k and column tiles."""
    return min(TILES_BY_GROUP[pairs_of(groups, kt, nt)] * LANES, (SCRATCH_ROWS - STAGE_ROWS) // kt)


def plan_pixels(s: Pixels, bias: bool, activation: str | None, groups: int = 0) -> Product:
    """Like `plan`, with packed weights, for a convolution. groups: of the array."""
    kj = tiles(s.run)
    kt = s.kh * s.kw * kj
    room = SCRATCH_ROWS - STAGE_ROWS
    group = pairs_of(groups, kt, tiles(s.n), s.ow)
    most = min(TILES_BY_GROUP[group] * LANES, room // kt)
    if s.ow > most:
        raise ValueError(f"convolution: lines of {s.ow} pixels under {kt} tiles of weights; at most {most}")
    lines = most // s.ow
    lines = -(-s.oh // -(-s.oh // lines))
    variant, words = pixel_words(s, kt, lines, bias, activation, group=group)
    full = variant.full_blocks
    lanes = tail(s.run) if kj == 1 else LANES
    return Product(replace(variant, double_a=full and 2 * lines * s.ow * kt <= room, lanes=lanes), words, {})


def pixel_words(
    s: Pixels, kt: int, lines: int, bias: bool, activation: str | None, stays: bool = False, group: int = 0
) -> tuple[Variant, dict[str, int]]:
    """For blocks of `lines` output lines; `stays` as for `plan`."""
    kj = tiles(s.run)
    full = (s.oh - 1) // lines
    rest = s.oh - full * lines
    k = kt * LANES
    matrices = Matrices(32, s.n, k, k, 0, s.c_row, s.batch, a_batch=s.a_batch, c_batch=s.c_batch)
    variant, words = plan(matrices, "packed", bias, activation, 1.0, stays, group)
    words |= {
        "full": full,
        "pace": full + 1,
        "g_main": lines,
        "g_rest": rest,
        "kh": s.kh,
        "kw": s.kw,
        "kj": kj,
        "a_kh": s.a_kh * ELEMENT,
        "a_kw": s.a_kw * ELEMENT,
        "a_line": s.a_line * ELEMENT,
        "a_piece": LANES * s.a_pixel * ELEMENT,
        "a_block": lines * s.a_line * ELEMENT,
        "c_block": lines * s.ow * s.c_row * ELEMENT,
        "a_span": lines * s.ow * kt * ROW_BYTES,
        "a_meta": metadata(A_SID, LANES, LANES, s.a_pixel),
        "a_last": metadata(A_SID, tail(s.ow), LANES, s.a_pixel),
        "c_last": metadata(A_SID, tail(rest * s.ow), LANES, s.c_row),
        "c_last_n": metadata(A_SID, tail(rest * s.ow), tail(s.n), max(s.c_row, tail(s.n))),
        "c_main": metadata(A_SID, tail(lines * s.ow), LANES, s.c_row),
        "c_main_n": metadata(A_SID, tail(lines * s.ow), tail(s.n), max(s.c_row, tail(s.n))),
    }
    variant = replace(
        variant,
        full_blocks=full > 0,
        main=lines * s.ow if full else 0,
        rest=rest * s.ow,
        image=s.ow,
        k_tail=False,
    )
    return variant, words


def plan_image(s: Image, n: int, bias: bool, activation: str | None, groups: int = 0) -> list[Product]:
    """The calls for `n` output channels, whose steps of k are tiles of 32 channels under each of kh x kw taps; none if
    an output line is too long. groups: of the array."""
    planes = s.channels // LANES
    group = pairs_of(groups, s.kernel[0] * s.kernel[1] * planes, tiles(n), s.out_size[1])
    if s.out_size[1] > TILES_BY_GROUP[group] * LANES:
        return []
    rows = (SCRATCH_ROWS - STAGE_ROWS - LANES) // planes
    return [_band_product(band, n, planes, bias, activation, group) for band in s.bands(rows)]


def _band_product(band: Band, n: int, planes: int, bias: bool, activation: str | None, group: int) -> Product:
    s = band.image
    kh, kw = s.kernel
    kt = kh * kw * planes
    lines = min(TILES_BY_GROUP[group] * LANES // s.out_size[1], band.height)
    lines = -(-band.height // -(-band.height // lines))
    flat = Pixels(
        s.images, band.height, s.out_size[1], n, kh, kw, s.channels, 0, 0, 0, s.source[2], s.source[0], s.out[2],
        s.out[0],
    )  # fmt: skip
    # The image is loaded under the first panel of weights. Where weights are more, small panels hide them instead.
    small_panels = kt * tiles(n) > tiles(band.have * s.taken) * planes
    variant, words = pixel_words(flat, kt, lines, bias, activation, small_panels, group)
    variant = replace(variant, pixel_step=s.stride[1], double_a=False, one_step=kt == 1, border=band.border)
    words |= band.words(LANES, planes, lines, lines) | {"a_span": lines * s.stride[0] * s.width * ROW_BYTES}
    places = [
        ((c * band.needed + i * s.dilation[0]) * s.width + j * s.dilation[1]) * ROW_BYTES
        for i in range(kh)
        for j in range(kw)
        for c in range(planes)
    ]
    deltas = [after - before for before, after in zip(places, [*places[1:], places[-1]])]
    c = band.first * s.out[1]
    return Product(variant, words, {"a": max(0, band.top) * s.source[1], "c": c, "residual": c}, deltas)
