# SPDX-License-Identifier: BSD-3-Clause
"""Cycles follow the chip's geometry: the array, the vector's lanes, the scratchpads and the SDMA's tiles.

The expected numbers are worked out here from the formulas of docs/concepts/timing.md, gemm.md and attention's
description, and not asked of the library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

CHIP_FILE = (Path(__file__).parents[2] / "csrc/sim/chip.toml").read_text()

CHILD = """
import json, torch, torch_atalla
from torch_atalla import isa, telemetry

def cycles(kernel, function, *sizes, dtype=torch.bfloat16):
    tensors = [torch.ones(s, dtype=dtype, device="atalla") for s in sizes]
    torch.atalla.synchronize()
    seen = len(telemetry.launches("atalla"))
    function(*tensors)
    torch.atalla.synchronize()
    return [r.cycles for r in telemetry.launches("atalla")[seen:] if r.kernel == kernel]

attend = torch.nn.functional.scaled_dot_product_attention
found = {
    "product 512": cycles("gemm", torch.mm, (512, 512), (512, 512)),
    "product 1024": cycles("gemm", torch.mm, (1024, 1024), (1024, 1024)),
    "multiply": cycles("pointwise.mul", torch.mul, (64, 96), (64, 96), dtype=torch.float32),
    "sum": cycles("reduce.sum", lambda x: x.sum(1), (64, 1024), dtype=torch.float32),
    "attention": cycles("attention", attend, *[(1, 2, 256, 64)] * 3),
    "causal attention": cycles("attention", lambda q, k, v: attend(q, k, v, is_causal=True), *[(1, 2, 256, 64)] * 3),
    "strided copy": cycles("copy", lambda x: x[:, :40].contiguous(), (96, 64), dtype=torch.float32),
}
try:
    isa.Machine(isa.assemble("halt.s"), device=0)
    found["code"] = "runs"
except RuntimeError as error:
    found["code"] = str(error)
print(json.dumps(found))
"""


def ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass
class Chip:
    """What chip.toml says of the default chip where no field is given, and what a launch of it takes."""

    lanes: int = 32
    rows: int = 32
    columns: int = 32
    pad: int = 1 << 20
    tile_rows: int = 32
    tile_columns: int = 32

    KEYS = {"lanes": "vector.lanes", "rows": "array.rows", "columns": "array.columns", "pad": "scratchpad.bytes"}
    KEYS |= {"tile_rows": "sdma.tile_rows", "tile_columns": "sdma.tile_columns"}

    def text(self) -> str:
        text = CHIP_FILE
        for field in fields(self):
            section, key = self.KEYS[field.name].split(".")
            pattern = rf"(\[{section}\]\n(?:[^\[]*\n)?{key} = {{ value = )[0-9_]+"
            text, count = re.subn(pattern, rf"\g<1>{getattr(self, field.name)}", text)
            assert count == 1, field.name
        return text

    def cycles(self, read, written, vector=0, exp=0, array=0, packets=0, waits=0, tiles=0, beats=0) -> int:
        """docs/concepts/timing.md: a tile takes 8 cycles and a beat of 8 bytes two, a vector instruction two.

        waits: bytes for whose tiles the core waits.
        """
        tile = 2 * self.tile_rows * self.tile_columns
        moved = ceil(read, tile) + ceil(written, tile)
        sdma = 8 * (tiles or moved) + 2 * (beats or ceil(read, 8) + ceil(written, 8))
        vector_cycles = 2 * max(vector, exp)
        core = vector_cycles + array + packets
        steps = max(ceil(read, tile), ceil(written, tile))
        if tiles:
            steps = tiles * steps // moved
        late = min(waits, read + written) * sdma // (read + written)
        latency = (22 + (6 if exp else 0) if vector_cycles else 0) + (45 if array else 0)
        return 64 + late + max(sdma - late, core) + ceil(min(sdma - late, core), max(steps, 1)) + latency

    def tile(self, edge: int) -> int:
        """Of operands: an array of twice as many rows or columns as lanes takes pairs of vectors."""
        return self.lanes if edge == 2 * self.lanes else edge

    def product(self, m: int, n: int, k: int) -> int:
        """[m, k] x [k, n] in BF16, whose n is innermost in B: docs/concepts/gemm.md, "Cost on the chip"."""
        deep, wide = self.tile(self.rows), self.tile(self.columns)
        tiles_right, depth = ceil(n, wide), ceil(k, deep) * deep
        tiles, columns = depth // deep * tiles_right, ceil(n, self.columns)
        pairs = (self.rows != deep) + 2 * (self.columns != wide)  # of vectors, which a pass takes
        block = (6, 5, 3, 3)[pairs]
        blocks, parts = ceil(m, block * deep), ceil(k, self.rows) * columns
        weights = self.columns if pairs & 2 else deep
        array = parts * (m + blocks * weights) + tiles * (deep + wide)
        packets = (7 if pairs else 5) * parts * blocks + (140 if pairs else 30) * columns * blocks
        packets += 48 * tiles + m * tiles_right
        rows = self.pad // (2 * self.tile_columns)
        stays = ceil(m, deep) <= block or ceil(m, deep) * depth + 384 <= rows
        panel = max(1, (rows - 1024 - wide) // depth)
        passes = 1 if stays else ceil(tiles_right, panel - panel % 2 if pairs & 2 else panel)
        read = 2 * (m * k * passes + k * n)
        return self.cycles(read, 2 * m * n, array=array, packets=packets, waits=read)

    def attention(self, heads: int, length: int, e: int, causal: bool) -> int:
        """Scores (keys are the columns of the weights) and sums of values (keys are their rows), in BF16. `length` in
        whole blocks of queries. Weights are pushed for each block, ones for the sums of exponentials too; values are
        transposed once. The core waits for the keys and values of the first head."""

        def tiles(edge: int) -> int:  # of keys, over all blocks: all, or those up to the block's own
            blocks = range(0, length, self.lanes)
            return sum(
                min(ceil(length, edge), ceil(q + self.lanes, edge)) if causal else ceil(length, edge) for q in blocks
            )

        rows, columns = self.tile(self.rows), self.tile(self.columns)
        e_tiles, value_tiles = ceil(e, rows), ceil(e, columns)
        transposed = ceil(length, rows) * value_tiles
        e_passes = ceil(e, self.rows)  # two tiles of a query at once, and two of a result, where the array has room
        weights = tiles(columns) * e_passes + tiles(rows) * value_tiles + length // self.lanes + transposed
        pairs = self.lanes * tiles(columns)
        array = pairs * e_passes + self.lanes * tiles(rows) * ceil(e, self.columns) + pairs
        array += weights * rows + transposed * columns
        vector = 3 * pairs + length * (e_tiles + 3 + 2 * value_tiles)
        packets = 3 * heads * pairs // 4 + 12 * heads * length
        read = 2 * heads * (length * e + length * 2 * e)
        written = heads * length * (2 * e + 4)  # and the logarithm of a sum in FP32 for each query
        waits = 2 * 2 * heads * length * e * (255 // heads) // 255
        return self.cycles(read, written, heads * vector, heads * pairs, heads * array, packets=packets, waits=waits)

    def row_sum(self, rows: int, columns: int) -> int:
        """[rows, columns] of FP32 over columns: a sum's vectors pass the array. The core waits for the first 32 rows,
        and for those tiles of later rows that are more than eight."""
        vectors = ceil(rows * columns, self.lanes)
        tiles, blocks = ceil(4 * columns, 2 * self.tile_columns), ceil(rows, self.tile_rows)
        share = 255 * (tiles + (blocks - 1) * max(0, tiles - 8)) // (blocks * tiles)
        waits = 4 * rows * columns * min(255, share) // 255
        packets, array = 5 * vectors // 8 + 3 * rows, vectors + self.lanes
        return self.cycles(4 * rows * columns, 4 * rows, vector=rows, array=array, packets=packets, waits=waits)

    def strided_copy(self, runs: int, run_bytes: int) -> int:
        """Runs are the rows of tiles, read once and written once, each in whole beats."""
        tiles = 2 * ceil(runs, self.tile_rows) * ceil(run_bytes, 2 * self.tile_columns)
        moved = runs * run_bytes
        return self.cycles(moved, moved, packets=4 * tiles, tiles=tiles, beats=2 * runs * ceil(run_bytes, 8))

    def expected(self) -> dict[str, list[int]]:
        elements = 64 * 96
        vectors = ceil(elements, self.lanes)
        return {
            "product 512": [self.product(512, 512, 512)],
            "product 1024": [self.product(1024, 1024, 1024)],
            "multiply": [self.cycles(8 * elements, 4 * elements, vector=vectors, packets=vectors)],
            "sum": [self.row_sum(64, 1024)],
            "attention": [self.attention(2, 256, 64, causal=False)],
            "causal attention": [self.attention(2, 256, 64, causal=True)],
            "strided copy": [self.strided_copy(96, 160)],
        }


def run(chip: Chip) -> dict[str, list[int] | str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chip.toml"
        path.write_text(chip.text())
        env = os.environ | {"ATALLA_CHIP_CONFIG": str(path), "ATALLA_CLOCK": "roofline"}
        done = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


class TestChipGeometry(TestCase):
    def test_default_chip(self):
        expected = Chip().expected()
        self.assertEqual(expected["product 512"], [464_401])  # as a regression
        self.assertEqual(run(Chip()), expected | {"code": "runs"})

    @parametrize(
        "chip, changes, refusal",
        [
            (Chip(rows=64, columns=64), ["product 512", "attention"], None),
            (Chip(columns=64), ["product 512", "attention"], None),
            (Chip(rows=16), ["product 512", "attention"], r"array\.rows is 16; expected 32 or 64: lw\.vi pushes"),
            (Chip(columns=16), ["product 512"], r"array\.columns is 16; expected 32 or 64: gemm\.vv gives"),
            (Chip(lanes=64), ["multiply", "sum", "attention"], r"vector\.lanes is 64; expected 32"),
            (Chip(pad=2 << 20), ["product 1024"], None),
            (Chip(tile_rows=16), ["product 512", "strided copy"], r"sdma\.tile_rows is 16; expected 32"),
        ],
        name_fn=lambda chip, changes, refusal: "_".join(str(getattr(chip, field.name)) for field in fields(chip)),
    )
    def test_other_chip(self, chip, changes, refusal):
        found, expected, default = run(chip), chip.expected(), Chip().expected()
        code = found.pop("code")
        self.assertEqual(found, expected)
        for name in changes:
            self.assertNotEqual(found[name], default[name], msg=name)
        if refusal is None:
            self.assertEqual(code, "runs")
        else:
            self.assertRegex(code, refusal)


instantiate_parametrized_tests(TestChipGeometry)

if __name__ == "__main__":
    from torch.testing._internal.common_utils import run_tests

    run_tests()
