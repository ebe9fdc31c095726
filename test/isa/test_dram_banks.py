# SPDX-License-Identifier: BSD-3-Clause
"""The bank-level DRAM: published cycles, a controller that steps through every cycle, and refused presets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from dram_reference import PRESETS, Controller, preset
from torch.testing._internal.common_utils import TestCase

ROOT = Path(__file__).parents[2]
CHIP = (ROOT / "csrc/sim/chip.toml").read_text()
TILE = 2048  # bytes: 32 x 32 elements of 2 bytes

# Loads (or stores) of the given tiles: address and elements between rows; the cycles of each program.
CHILD = """
import json, os, sys
from torch_atalla import isa

studies = json.loads(sys.argv[1])
found = []
for ordinal, (path, verb, tiles) in enumerate(studies):
    os.environ["ATALLA_CHIP_CONFIG"] = path
    text = []
    for address, pitch in tiles:
        meta = 31 << 25 | 31 << 20 | pitch - 1
        text += [f"li.s x9, {address}", f"lui.s x30, {meta >> 7}", f"addi.s x30, x30, {meta & 127}"]
        text += [f"scpad.{verb} x0, x9, x30"]
    machine = isa.Machine(isa.assemble("\\n".join([*text, "halt.s"])), device=ordinal)
    machine.run()
    found.append(machine.stats().cycles)
print(json.dumps(found))
"""

REFUSED = """
import json, os, sys
import torch, torch_atalla

errors = []
for ordinal, path in enumerate(json.loads(sys.argv[1])):
    os.environ["ATALLA_CHIP_CONFIG"] = path
    try:
        torch.ones(1, device=torch.device("atalla", ordinal))
        errors.append("none")
    except RuntimeError as error:
        errors.append(str(error))
print(json.dumps(errors))
"""


def contiguous(n: int) -> list[tuple[int, int]]:
    """2,048 bytes after another."""
    return [(TILE * i, 32) for i in range(n)]


def of_matrix(n: int) -> list[tuple[int, int]]:
    """Tiles of a matrix of 1,024 x 1,024 elements that is stored row by row."""
    return [((i // 32) * 32 * 2048 + (i % 32) * 64, 1024) for i in range(n)]


def addresses(tile: tuple[int, int], request: int) -> list[int]:
    base, pitch = tile
    return [base + row * pitch * 2 + byte for row in range(32) for byte in range(0, 64, request)]


class TestDramBanks(TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def chip(self, name: str, text: str | None = None, **changes: object) -> str:
        """A chip file with a preset of our own: `text`, or that of `name` with some values changed."""
        text = (PRESETS / f"{name}.toml").read_text() if text is None else text
        for key, value in changes.items():
            old = re.search(rf"^{key} = {{ value = (\"[^\"]*\"|[\d_]+)", text, re.M)
            text = text.replace(old[0], old[0].removesuffix(old[1]) + json.dumps(value))
        file = self.folder / f"preset{len(list(self.folder.iterdir()))}.toml"
        file.write_text(text)
        chip = file.with_suffix(".chip")
        chip.write_text(CHIP.replace('preset = { value = "constant"', f'preset = {{ value = "{file}"'))
        return str(chip)

    def child(self, text: str, argument: list) -> list:
        """What a process with a device per chip file prints."""
        done = subprocess.run(
            [sys.executable, "-c", text, json.dumps(argument)],
            env=os.environ | {"ATALLA_DEVICE_COUNT": "64"},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)

    def cycles(self, studies: list) -> list[int]:
        return self.child(CHILD, studies)

    def test_published_cycles(self):
        """The chip team ran Ramulator with one memory cycle per bus cycle of 800 MHz, on a matrix stored row by row.

        2,331 cycles per tile of the matrix, 5,125 per 2,048 bytes of a row. No parameter is fitted.
        """
        chip = self.chip("ddr4_3200", hz=800_000_000)
        whole, half = self.cycles([[chip, "ld", of_matrix(1024)], [chip, "ld", contiguous(1024)]])
        self.assertLess(abs(whole / 1024 / 2331 - 1), 0.03, msg=whole / 1024)
        self.assertLess(abs(half / 1024 / 5125 - 1), 0.03, msg=half / 1024)

    def test_against_every_cycle(self):
        patterns = {
            "contiguous": contiguous(8),
            "matrix": of_matrix(8),
            "narrow": [(64 * i, 96) for i in range(8)],
            "bank": [(TILE * i, 65536) for i in range(4)],  # every row of the tile in another row of one bank
            "scattered": [((i * 7919 * 64) % (1 << 22), 480 + 32 * (i % 7)) for i in range(8)],
        }
        changes = [{}, {"page": "open"}, {"request_bytes": 64}, {"page": "open", "request_bytes": 64, "window": 8}]
        studies, expected = [], []
        for change in changes:
            chip = self.chip("ddr4_3200", hz=800_000_000, **change)
            for name, tiles in patterns.items():
                controller = Controller(preset("ddr4_3200") | change)
                expected.append((name, change, controller, tiles))
                studies.append([chip, "ld", tiles])
        errors = []
        for found, (name, change, controller, tiles) in zip(self.cycles(studies), expected, strict=True):
            for tile in tiles:
                controller.t += 8  # sdma.setup_cycles
                wanted = controller.read(addresses(tile, controller.p["request_bytes"]))
            errors.append(abs(found / wanted - 1))
            self.assertLess(errors[-1], 0.15, msg=f"{name} {change}: {found}, expected {wanted}")
        self.assertLess(sum(errors) / len(errors), 0.03)

    def test_presets(self):
        """Peak bandwidth orders the memories; no stream is faster than it; the same cycles each time."""
        names = ("ddr4_3200", "lpddr4_3200", "lpddr5_6400", "hbm2_2000")
        studies = [[self.chip(name), verb, contiguous(128)] for name in names for verb in ("ld", "st")]
        found = self.cycles(studies)
        self.assertEqual(found, self.cycles(studies))
        for name, load, store in zip(names, found[::2], found[1::2], strict=True):
            p = preset(name)
            peak = 128 * TILE / (p["channels"] * p["burst_bytes"]) * p["burst"] / p["hz"] * 800e6
            self.assertGreater(load, peak, msg=name)
            self.assertGreater(store, peak, msg=name)
        self.assertLess(found[6], found[0])

    def test_refused(self):
        cases = [
            ({"mapping": "row bank rank column channel"}, 'bits are missing of "group"'),
            ({"mapping": "bank row group rank column channel"}, "the row is not the first field"),
            ({"mapping": "row bank group rank column:9 channel"}, 'wrong width of "column:9"'),
            ({"mapping": "row bank group rank column chanel"}, 'unknown field "chanel"'),
            ({"ccd_l": 3}, "line 24: timing.ccd_s: the value is 4; expected at most timing.ccd_l, which is 3"),
            ({"rfc": 20000}, "timing.rfc: the value is 20000; expected less than timing.refi, which is 12480"),
            (
                {"request_bytes": 128},
                "controller.request_bytes: the value is 128; expected at most organization.burst_bytes, which is 64",
            ),
            ({"window": 0}, "controller.window: the value is 0; expected an integer from 1 to 128"),
            ({"page": "half"}, 'controller.page is "half"'),
        ]
        paths = [self.chip("ddr4_3200", **changes) for changes, _ in cases]
        for error, (_, text) in zip(self.child(REFUSED, paths), cases, strict=True):
            self.assertIn(text, error)


if __name__ == "__main__":
    from torch.testing._internal.common_utils import run_tests

    run_tests()
