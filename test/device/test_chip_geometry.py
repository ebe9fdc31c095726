# SPDX-License-Identifier: BSD-3-Clause
"""The roofline follows the chip's geometry, and chips of other geometries run no Atalla code.

The expected numbers are worked out here from the formulas of docs/concepts/timing.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

from torch_atalla.explorer.space import with_values

CHIP_FILE = (Path(__file__).parents[2] / "csrc/sim/chip.toml").read_text()

CHILD = """
import json, torch, torch_atalla
from torch_atalla import isa, telemetry

def cycles(function, *sizes):
    tensors = [torch.ones(s, dtype=torch.bfloat16, device="atalla") for s in sizes]
    torch.atalla.synchronize()
    seen = len(telemetry.launches("atalla"))
    function(*tensors)
    torch.atalla.synchronize()
    (record,) = telemetry.launches("atalla")[seen:]
    return record.cycles

attend = torch.nn.functional.scaled_dot_product_attention
found = {
    "product": cycles(torch.mm, (512, 512), (512, 512)),
    "attention": cycles(attend, *[(1, 1, 2048, 16)] * 3),
    "broadcast sum": cycles(lambda x: x.expand(1 << 16).sum(), (1,)),
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

    rows: int = 32
    columns: int = 32
    lanes: int = 32
    tile_rows: int = 32
    tile_columns: int = 32

    def text(self) -> str:
        array = {"array.rows": self.rows, "array.columns": self.columns, "vector.lanes": self.lanes}
        return with_values(
            CHIP_FILE, array | {"sdma.tile_rows": self.tile_rows, "sdma.tile_columns": self.tile_columns}
        )

    def cycles(self, read: int, written: int, vector: int = 0, rows: int = 0) -> int:
        tile = 2 * self.tile_rows * self.tile_columns
        sdma = 8 * (ceil(read, tile) + ceil(written, tile)) + 2 * (ceil(read, 8) + ceil(written, 8))
        return 64 + max(sdma, 2 * vector + rows) + (22 if vector else 0) + (45 if rows else 0)

    def expected(self) -> dict[str, int]:
        multipliers, square = self.rows * self.columns, 2 * 512 * 512
        pairs, operand = 2048 * 2048, 2 * 2048 * 16
        return {
            "product": self.cycles(2 * square, square, rows=ceil(512**3, multipliers)),
            # With the logarithm of a sum in FP32 for each query.
            "attention": self.cycles(3 * operand, operand + 4 * 2048, rows=ceil(pairs * 32, multipliers)),
            "broadcast sum": self.cycles(2, 2, vector=ceil(1 << 16, self.lanes)),
        }


def run(chip: Chip) -> dict[str, int | str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chip.toml"
        path.write_text(chip.text())
        env = os.environ | {"ATALLA_CHIP_CONFIG": str(path), "ATALLA_CLOCK": "roofline"}
        done = subprocess.run([sys.executable, "-c", CHILD], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


class TestChipGeometry(TestCase):
    @parametrize(
        "chip, changes, refusal",
        [
            (Chip(), [], None),
            (Chip(rows=64, columns=64), ["attention"], None),
            (Chip(columns=64), ["attention"], None),
            (Chip(rows=16), ["attention"], r"array\.rows is 16; expected 32 or 64: lw\.vi pushes"),
            (Chip(columns=16), ["attention"], r"array\.columns is 16; expected 32 or 64: gemm\.vv gives"),
            (Chip(lanes=64), ["broadcast sum"], r"vector\.lanes is 64; expected 32"),
            (Chip(tile_rows=16), ["product"], r"sdma\.tile_rows is 16; expected 32"),
        ],
        name_fn=lambda chip, changes, refusal: "_".join(str(getattr(chip, field.name)) for field in fields(chip)),
    )
    def test_chip(self, chip, changes, refusal):
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
