# SPDX-License-Identifier: BSD-3-Clause
"""Images in scratchpad 0 with their border: a plane for each tile of 32 channels, a row for each pixel.

Every line comes once, before the first block of output lines that looks at it; a border is written there, not read.
Images that do not fit are cut into bands of output lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch_atalla.isa.geometry import LANES

from ..vir import V0, Reg
from .common import Kernel
from .tiling import ELEMENT, ROW_BYTES, TILE_BYTES, tile_in, tile_words, tiles

IMAGE_SID = 0


@dataclass(frozen=True)
class Image:
    """Windows over [images, h, w, channels]. Sizes in pixels; pairs are (down, right). Distances in elements, from one
    image, line and pixel to the next."""

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

    @property
    def window(self) -> int:
        """Lines from the first to the last that a window looks at."""
        return (self.kernel[0] - 1) * self.dilation[0] + 1

    @property
    def width(self) -> int:
        """Pixels of a line with its border."""
        reach = (self.out_size[1] - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1
        return max(reach, self.padding[1] + 1)

    @property
    def taken(self) -> int:
        """Pixels of a line without its border."""
        return min(self.size[1], self.width - self.padding[1])

    def bands(self, rows: int) -> Iterator[Band]:
        """Bands of equal height for planes of at most `rows` rows; none if there is no room for a window."""
        most = min(self.out_size[0], (rows // self.width - self.window) // self.stride[0] + 1)
        if most < 1:
            return
        height = -(-self.out_size[0] // -(-self.out_size[0] // most))
        for first in range(0, self.out_size[0], height):
            yield Band(self, first, min(height, self.out_size[0] - first))


@dataclass(frozen=True)
class Band:
    """`height` output lines from `first` on, and the lines of the image that they look at."""

    image: Image
    first: int
    height: int

    @property
    def needed(self) -> int:
        """Lines with the border."""
        return (self.height - 1) * self.image.stride[0] + self.image.window

    @property
    def top(self) -> int:
        """The first of them, negative if it is one of the border."""
        return self.first * self.image.stride[0] - self.image.padding[0]

    @property
    def have(self) -> int:
        """Lines without the border."""
        return max(0, min(self.image.size[0], self.top + self.needed) - max(0, self.top))

    @property
    def border(self) -> bool:
        return (self.needed, self.image.width) != (self.have, self.image.taken)

    def words(self, lanes: int, planes: int, early: int, later: int) -> dict[str, int]:
        """For an `ImageKernel`. lanes: channels of a tile. early: output lines whose windows' lines come first; later:
        how many more in each step."""
        s, above = self.image, max(0, -self.top)
        early = min(self.have, max(0, (early - 1) * s.stride[0] + s.window - above))
        words = {
            "border_tiles": tiles(self.needed * s.width * planes),
            "origin": (above * s.width + s.padding[1]) * ROW_BYTES,
            "plane": self.needed * s.width * ROW_BYTES,
            "planes": planes,
            "row": s.width * ROW_BYTES,
            "early": early,
            "later": self.have - early,
            "next": later * s.stride[0],
            "x_line": s.source[1] * ELEMENT,
            "line": s.stride[0] * s.width * ROW_BYTES,
        }
        matrix = (s.taken, s.channels, s.source[2])
        step = LANES * s.source[2] * ELEMENT
        return words | tile_words("x", s.taken, step, lambda rows: tile_in(IMAGE_SID, rows, lanes, matrix))


class ImageKernel(Kernel):
    image_region = "image"
    several_planes = False

    def fill_border(self, first: Reg, value: Reg = V0) -> None:
        """The border's value in all planes, from address `first` on; images come on top of it."""
        with self.b.walk(self.p["border_tiles"], (first, self.k.integer(TILE_BYTES))) as (place,):
            self.fill_rows(place, IMAGE_SID, self.image_region, value)

    def start_image(self, source: Reg, first: Reg) -> None:
        """Loads the lines that the first block of output lines looks at, into planes from address `first` on."""
        b = self.b
        self.image_line = b.s("addi.s", source, 0)
        self.plane_line = b.s("add.s", first, self.p["origin"])
        self.lines_left = b.s("addi.s", self.p["later"], 0)
        self._load_lines(self.p["early"])

    def next_lines(self) -> None:
        """Loads the lines that the next block looks at."""
        b, count = self.b, self.b.s("addi.s", self.p["next"], 0)
        with b.unless("ble.s", count, self.lines_left):
            b.mov(count, self.lines_left)
        b.emit("sub.s", self.lines_left, self.lines_left, count)
        self._load_lines(count)

    def _load_lines(self, count: Reg) -> None:
        b, p = self.b, self.p
        with b.loop(count, skip_empty=True):
            if self.several_planes:
                moves = (self.plane_line, p["plane"]), (self.image_line, LANES * ELEMENT)
                with b.walk(p["planes"], *moves) as (left, channels):
                    self.load_tiles(left, channels, "x", self.image_region)
            else:
                self.load_tiles(self.plane_line, self.image_line, "x", self.image_region)
            b.emit("add.s", self.plane_line, self.plane_line, p["row"])
            b.emit("add.s", self.image_line, self.image_line, p["x_line"])
