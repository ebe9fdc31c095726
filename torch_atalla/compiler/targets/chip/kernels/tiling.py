# SPDX-License-Identifier: BSD-3-Clause
"""How operands are cut into tiles of up to 32 x 32, and the words that describe tiles and loops to a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, ClassVar

from torch_atalla.isa.geometry import LANES

ROW_BYTES = 64  # of a scratchpad row
TILE_BYTES = LANES * ROW_BYTES  # of a 32 x 32 tile, in a scratchpad and in DRAM alike
SCRATCH_ROWS = 16384  # 1 MiB
ELEMENT = 2  # bytes of a BF16

# A call of a kernel: variant, words but for addresses, and for each address its offset in elements.
Call = tuple[Any, dict[str, int], dict[str, int]]


def tiles(size: int) -> int:
    return -(-size // LANES)


def tail(size: int) -> int:
    """Elements of the last tile."""
    return (size - 1) % LANES + 1


def round_rows(rows: int) -> int:
    """How many of up to 32 rows (or more, in steps of 8) are computed: few sizes, so that calls share their code."""
    return next(r for r in (1, 2, 4, 8) if rows <= r) if rows <= 8 else -(-rows // 8) * 8


def pad_rows(rows: int) -> int:
    """Like `round_rows`, for up to 32 rows without matrix products."""
    return LANES if rows > 24 else next(r for r in (1, 2, 4, 8, 16, 24) if rows <= r)


def split(size: int) -> list[tuple[int, int, int]]:
    """(first, number of tiles, size of a tile) of the whole tiles and of the rest."""
    whole, rest = divmod(size, LANES)
    return [(0, whole, LANES)] * bool(whole) + [(whole * LANES, 1, rest)] * bool(rest)


def tile_loops(
    outer: Iterable[Sequence[int]], rows: Sequence[int], cols: Sequence[int]
) -> Iterator[tuple[list[Sequence[int]], int, int, list[int]]]:
    """Loops over tiles of equal sizes that cover two dimensions: the loops, a tile's rows and columns, and where each
    operand starts. Each loop and dimension is a count and the step of each operand."""
    for (r0, rn, rt), (c0, cn, ct) in product(split(rows[0]), split(cols[0])):
        tiled = [(rn, *(step * LANES for step in rows[1:])), (cn, *(step * LANES for step in cols[1:]))]
        starts = [r0 * down + c0 * right for down, right in zip(rows[1:], cols[1:])]
        yield [loop for loop in (*outer, *tiled) if loop[0] > 1], rt, ct, starts


@dataclass(frozen=True)
class NamedVariant:
    """What the code of a kernel depends on. Its name tells functions apart: it has every field, except those at their
    defaults and truth values that do not hold."""

    kernel: ClassVar[str]

    @property
    def name(self) -> str:
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]
        defaults = {field.name: field.default for field in fields(self)}
        parts = [
            name if value is True else value if isinstance(value, str) else f"{name}{value}"
            for name, value in given
            if value is not None and value is not False and value != defaults[name]
        ]
        return "_".join([self.kernel, *parts])


def nest_words(loops: Iterable[Sequence[int]], names: Sequence[str], sizes: Sequence[int]) -> dict[str, int]:
    """The words of `Kernel.nest` for loops (count, steps), the steps in units of `sizes` bytes."""
    return {f"{n}{level}": x * size for level, loop in enumerate(loops) for n, x, size in zip(names, loop, sizes)}


def odometer(loops: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The loops (count, steps) with steps that also take back all passes of the next inner loop, for
    `Kernel.advance`."""
    result = [*loops[-1:]]
    for (count, *steps), (inner, *back) in zip(loops[-2::-1], loops[:0:-1]):
        result.insert(0, (count, *(step - inner * b for step, b in zip(steps, back))))
    return result


def metadata(sid: int, rows: int, cols: int, row_length: int) -> int:
    """The word of scpad.ld and scpad.st; row_length is the distance of DRAM rows in elements."""
    if not (0 < rows <= LANES and 0 < cols <= LANES and 0 < row_length <= 1 << 20):
        raise ValueError(
            f"no tile of {rows} x {cols} with rows {row_length} elements apart; at most 32 x 32, 2^20 apart"
        )
    length = 0 if row_length == cols or rows == 1 else row_length - 1
    if length == 0 and not (row_length == cols or rows == 1):
        raise ValueError("a row length of 1 needs tiles of one column")
    return sid << 30 | (rows - 1) << 25 | (cols - 1) << 20 | length


def tile_in(sid: int, rows: int, cols: int, matrix: tuple[int, int, int]) -> int:
    """The word of a tile in a matrix: its rows, columns, and the distance of its rows, which may overlap.

    No transfer uses the word of a tile that is larger than the matrix. ValueError where all rows are one in memory.
    """
    height, width, step = matrix
    return metadata(sid, rows, cols, step if rows <= height and cols <= width and rows > 1 else cols)


def edge_words(name: str, sid: int, matrix: tuple[int, int, int], column: str = "c") -> dict[str, int]:
    """The words of a matrix' tiles: whole ones, those of the last rows, and each of the last columns."""
    heights, widths = (("meta", LANES), ("last", tail(matrix[0]))), (("", LANES), (f"_{column}", tail(matrix[1])))
    return {f"{name}_{row}{col}": tile_in(sid, m, n, matrix) for (row, m), (col, n) in product(heights, widths)}


def tile_words(name: str, rows: int, step: int, tile: Callable[[int], int]) -> dict[str, int]:
    """The words of tiles that cover `rows` rows, `step` bytes apart in DRAM. tile: the word of one of so many rows."""
    words = {"whole": tiles(rows) - 1, "step": step, "meta": tile(LANES), "last": tile(tail(rows))}
    return {f"{name}_{key}": value for key, value in words.items()}
