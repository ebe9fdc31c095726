# SPDX-License-Identifier: BSD-3-Clause
"""Why SCALE-Sim and the chip's code differ on a layer: each cause as a number, from shapes and the chip's geometry.

The numbers of a row add up: SCALE-Sim's figure and the causes give the code's.
"""

from __future__ import annotations

from dataclasses import dataclass

from .cases import Layer

BF16_BYTES = 2
BLOCK_ROWS = 192  # of C in vector registers: MAIN_TILES of compiler/targets/chip/kernels/gemm_plan.py


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Row:
    """One figure of a layer: SCALE-Sim's, what each cause adds, and what was measured."""

    scale_sim: int
    causes: dict[str, int]
    measured: int

    @property
    def residual(self) -> float:
        """What the causes do not explain, as a fraction of the measured figure."""
        return (self.measured - self.scale_sim - sum(self.causes.values())) / self.measured


@dataclass(frozen=True)
class Folds:
    """How a layer's product covers an array of `size` x `size`."""

    size: int
    k: int  # tiles of k
    n: int  # tiles of n
    chip_k: int  # tiles of k on the chip: each run of taps is rounded up
    blocks: int  # blocks of rows; each pushes all weights again


def folds(layer: Layer, size: int) -> Folds:
    k, n = ceil_div(layer.k, size), ceil_div(layer.n, size)
    if layer.product:
        return Folds(size, k, n, k, ceil_div(layer.m, BLOCK_ROWS))
    runs, run = _runs(layer, size)
    lines, columns = layer.out
    return Folds(size, k, n, runs * ceil_div(run, size), ceil_div(lines, BLOCK_ROWS // columns))


def _runs(layer: Layer, size: int) -> tuple[int, int]:
    """Runs of contiguous elements of a window, and the elements of one: taps if channels fill tiles, otherwise rows."""
    if layer.channels % size == 0:
        return layer.kernel * layer.kernel, layer.channels
    return layer.kernel, layer.kernel * layer.channels


def array_cycles(layer: Layer, size: int, scale_sim: int, measured: int) -> Row:
    """Cycles of the array: pushes and rows.

    SCALE-Sim fills and drains the array for each pair of tiles: its rows enter after the weights, and the next weights
    after the last result. In the chip, pushes and rows follow each other in consecutive cycles. The first tile of
    weights fills the weight buffer.

    A second factor that the network computes is not packed ahead of time: the array transposes its tiles first.
    """
    f = folds(layer, size)
    causes = {
        "fill and drain": -f.k * f.n * (2 * size - 2),
        "taps rounded up to tiles": layer.m * f.n * (f.chip_k - f.k),
        "weights pushed again": size * f.n * (f.chip_k * f.blocks - f.k),
        "transposed weights": 2 * size * f.k * f.n if layer.both_computed else 0,
        "first fill": size,
    }
    return Row(scale_sim, causes, measured)


def _touched(size: int, layer: Layer) -> tuple[int, int]:
    """Positions of one dimension that windows touch: with the border, and in the image."""
    out = (size + 2 * layer.padding - layer.kernel) // layer.stride + 1
    found = {step * layer.stride + tap for step in range(out) for tap in range(layer.kernel)}
    return len(found), sum(layer.padding <= place < layer.padding + size for place in found)


def traffic(layer: Layer, size: int, scale_sim: dict[str, int], measured: int) -> Row:
    """Bytes of DRAM.

    SCALE-Sim writes a partial result for every tile of k; the chip accumulates in vector registers. SCALE-Sim's image
    has its border in DRAM. It reads only elements that windows touch; the SDMA reads lines. With few channels, the chip
    pads the image by a copy and loads each window. Loading an operand twice would leave a residual.
    """
    f = folds(layer, size)
    (high, real_high), (wide, real_wide) = _touched(layer.height, layer), _touched(layer.width, layer)
    if layer.product:
        high, wide, real_high, real_wide = layer.m, 1, layer.m, 1
    touched, real = high * wide * layer.channels, real_high * real_wide * layer.channels
    image = layer.height * layer.width * layer.channels
    windows = 0
    if not layer.product and layer.channels % size:
        runs, run = _runs(layer, size)
        windows = layer.m * runs * ceil_div(run, size) * size + image  # loads; the copy reads and writes the image
    results = layer.m * layer.n
    causes = {
        "partial results": results - scale_sim["result"],
        "border": real - touched,
        "elements between windows": image - real,
        "padding and windows": windows,
    }
    total = scale_sim["image"] + scale_sim["filter"] + scale_sim["result"]
    assert f.k * results <= scale_sim["result"] < f.k * results + size, layer  # SCALE-Sim counts size - 1 more
    return Row(BF16_BYTES * total, {name: BF16_BYTES * value for name, value in causes.items()}, measured)
