# SPDX-License-Identifier: BSD-3-Clause
"""What the kernels share: tile arithmetic, metadata words, warm-up of the weight buffer, transposing through the
array.
"""

from __future__ import annotations

from ..machine import LANES
from ..vir import ROWS, V0, Builder, Reg

ROW_BYTES = 64  # of a scratchpad row
TILE_BYTES = LANES * ROW_BYTES  # of a 32 x 32 tile, in a scratchpad and in DRAM alike
SCRATCH_ROWS = 16384  # 1 MiB
ELEMENT = 2  # bytes of a BF16


def tiles(size: int) -> int:
    return -(-size // LANES)


def tail(size: int) -> int:
    """Elements of the last tile."""
    return (size - 1) % LANES + 1


def round_rows(rows: int) -> int:
    """How many of up to 32 rows (or more, in steps of 8) are computed: few sizes, so that calls share their code."""
    return next(r for r in (1, 2, 4, 8) if rows <= r) if rows <= 8 else -(-rows // 8) * 8


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


def warm_up(b: Builder) -> None:
    """The first 32 pushes after reset fill columns 0 to 31; every later push shifts. From here on column 31 goes
    first.
    """
    for _ in range(LANES):
        b.push(V0)


def push_tile(b: Builder, vectors: list[Reg]) -> None:
    """vectors[n] becomes output column n."""
    for vector in reversed(vectors):
        b.push(vector)


def load_tile_rows(b: Builder, base: Reg, sid: int, region: str, key: object = None, rows: int = LANES) -> list[Reg]:
    return [b.load_row(base, ROWS[row], sid, region, key) for row in range(rows)]


def unit_vectors(b: Builder) -> list[Reg]:
    """The rows of the identity matrix."""
    mask = b.m()
    b.emit("mv.stm", mask, ROWS[1])
    seed = b.v()
    b.emit("add.vv", seed, V0, V0)
    b.emit("add.vs", seed, V0, b.lf(1.0), mask=mask)
    return [seed] + [b.vec("rsum.vi", seed, 32 | lane) for lane in range(1, LANES)]


def ones_vector(b: Builder) -> Reg:
    return b.vec("add.vs", V0, b.lf(1.0))


def zero_rows(b: Builder, base: Reg, sid: int, region: str, rows: int = LANES) -> None:
    for row in range(rows):
        b.store_row(V0, base, ROWS[row], sid, region, row)
