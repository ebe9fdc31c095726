# SPDX-License-Identifier: BSD-3-Clause
"""Layouts of constant weights: tiles one after another, or side by side where the chip's DRAM prefers long rows."""

from pathlib import Path

import torch
from torch import nn
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
)

from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.schedule.chip_model import chip_model
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.select.weights import pack_weights, tile_cycles, tiles_beside
from torch_atalla.explorer.space import with_values

CHIP = (Path(__file__).parents[2] / "csrc/sim/chip.toml").read_text()


def on(preset: str):
    return chip_model(with_values(CHIP, {"dram.preset": preset}))


class Batched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 96, 160))

    def forward(self, x):
        return torch.bmm(x, self.weight)


def conv(channels: int, out: int, kernel: int, **more) -> nn.Module:
    return nn.Conv2d(channels, out, kernel, **more)


CASES = {
    "linear": (lambda: nn.Linear(224, 330), (40, 224)),
    "several_panels": (lambda: nn.Sequential(nn.Linear(256, 1030), nn.GELU(), nn.Linear(1030, 64)), (200, 256)),
    "large_depth": (lambda: nn.Linear(3100, 96), (33, 3100)),
    "batched": (Batched, (3, 20, 96)),
    "conv": (lambda: conv(64, 96, 3, padding=1), (2, 64, 14, 14)),
    "grouped_conv": (lambda: conv(128, 128, 3, groups=2), (1, 128, 10, 10)),
    "few_channels": (lambda: conv(3, 64, 7, stride=2), (1, 3, 32, 32)),
}


class TestWeights(TestCase):
    @parametrize("name", sorted(CASES))
    def test_same_bits(self, name):
        make, shape = CASES[name]
        torch.manual_seed(0)
        module, x = make(), to_bfloat16(torch.randn(shape))
        found, names = {}, {}
        for preset in ("constant", "ddr4_3200"):
            with torch.no_grad():
                compiled = compile_model(module, (x.float(),), convert=True, chip=on(preset))
            found[preset] = compiled.run([x]).outputs[0]
            names[preset] = " ".join(compiled.network.image.functions)
        self.assertNotIn("beside", names["constant"])
        self.assertIn("beside", names["ddr4_3200"])
        self.assertEqual(found["ddr4_3200"], found["constant"], rtol=0, atol=0)

    def test_choice(self):
        """By the cycles of the DRAM; with at most a quarter of padding."""
        for preset, most in (("constant", 1), ("ddr4_3200", 64), ("lpddr5_6400", 1), ("hbm2_2000", 1)):
            self.assertEqual(tiles_beside(640, on(preset)), most)
        self.assertEqual(tiles_beside(640, None), 1)
        chip = on("ddr4_3200")
        self.assertLess(tile_cycles(64, chip.text), 0.5 * tile_cycles(1, chip.text))
        for count in range(1, 300):
            beside = tiles_beside(count, chip)
            self.assertLessEqual(-(-count // beside) * beside, 1.25 * count)

    def test_places(self):
        """Row r of tile i is 64 bytes at (i / 8 * 8 * 32 + r * 8 + i % 8) * 64."""
        weight = torch.arange(7 * 32 * 3 * 32).remainder(251).float().view(1, 7 * 32, 3 * 32)
        rows = pack_weights(weight, 8).reshape(-1, 32)
        self.assertEqual(len(rows), 24 * 32)
        for i in range(21):
            n, k = divmod(i, 3)
            tile = rows[[i // 8 * 8 * 32 + r * 8 + i % 8 for r in range(32)]]
            self.assertEqual(tile.float(), weight[0, 32 * n : 32 * n + 32, 32 * k : 32 * k + 32])


instantiate_parametrized_tests(TestWeights)

if __name__ == "__main__":
    from torch.testing._internal.common_utils import run_tests

    run_tests()
