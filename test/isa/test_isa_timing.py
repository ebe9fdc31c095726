# SPDX-License-Identifier: BSD-3-Clause
"""The functional engine's analytic cycles against those of the generated Atalla code, kernel by kernel; and what
parameters of single units change."""

import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import isa_networks
import torch
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
)

from benchmarks import two_engines
from benchmarks.isa_cases import Case, cases, tensor
from benchmarks.isa_codegen import cycles
from tools import chip_counts
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.estimate import estimates
from torch_atalla.compiler.targets.chip.kernels import gemm_plan
from torch_atalla.compiler.targets.functional.pipeline import device_chip
from torch_atalla.explorer.space import with_values

warnings.filterwarnings("ignore", category=FutureWarning)

CHIP = (Path(__file__).resolve().parents[2] / "csrc/sim/chip.toml").read_text()
ROOTS = "".join(f"{name} x{20 + k}, x1\n" for k, name in enumerate(("rcp.bf", "sqrt.bf", "rcp.bf", "sqrt.bf")))
CYCLES = "from torch_atalla import isa\nprint(isa.run(isa.assemble({!r}), chip=0).cycles)"

CASES = {case.name: case for case in cases() if "1024" not in case.name}


class TestAnalyticModel(TestCase):
    @parametrize("name", sorted(CASES))
    def test_within_ten_percent(self, name):
        code, model = cycles(CASES[name])
        self.assertLessEqual(abs(model / code - 1), 0.10, msg=f"{name}: code {code}, model {model}")

    @parametrize("dim", [0, 1])
    def test_concatenation_within_ten_percent(self, dim):
        inputs = [tensor(256, 128), tensor(256, 128).t().contiguous().t(), tensor(256, 256)[:, ::2]]
        out = torch.empty_like(torch.cat(inputs, dim))
        case = Case("cat", "cat", inputs, out, {"dim": dim}, functional=lambda *x: torch.cat(x, dim))
        code, model = cycles(case)
        self.assertLessEqual(abs(model / code - 1), 0.10, msg=f"code {code}, model {model}")

    @parametrize("name", ["ViT-Micro", "GPT"])
    def test_networks_within_five_percent(self, name):
        make = next(make for full, make in isa_networks.NETWORKS.items() if full.startswith(name))
        torch.manual_seed(0)
        model, args = make()
        chip = device_chip()
        compiled = compile_model(model, args, convert=True, chip=chip)
        found = estimates(compiled.network, chip)
        self.assertGreaterEqual(len(found), 7)
        self.assertNotIn(None, found)
        code = compiled.run([to_bfloat16(x) for x in args]).stats.cycles
        self.assertLessEqual(abs(sum(found) / code - 1), 0.05, msg=f"code {code}, model {sum(found)}")

    def test_cores_on_a_mesh(self):
        """Kernels whose cores wait for one another's tiles, rows far apart, lines of divided images; and a network."""
        self.check_chip("mesh", ("RMS", "amax", "gather", "convolution 3 x 3, 64", "max pooling", "GPT"))

    def test_ports_and_caches(self):
        """Code of one function and of several, short and long; rows for the array beside those of the SDMA engine."""
        self.check_chip("details", ("GEMM 512^3, B packed", "softmax", "mean", "add", "convolution 3 x 3, 64", "GPT"))

    def check_chip(self, chip, only):
        """only: five kernels and a network."""
        found = two_engines.on_chip(chip, only)
        self.assertEqual([len(found[kind]) for kind in ("kernels", "networks")], [5, 1])
        for kind, limit in (("kernels", 0.10), ("networks", 0.05)):
            for name, code, model in found[kind]:
                self.assertLessEqual(abs(model / code - 1), limit, msg=f"{name}: code {code}, model {model}")

    def test_constants_of_products(self):
        """Those that the cost of a product repeats of the code generator."""
        text = (Path(__file__).parents[2] / "csrc/sim/time/product_plan.h").read_text()
        found = {name: int(number) for name, number in re.findall(r"int64_t k(\w+) = (\d+);", text)}
        expected = {"BlockTiles": gemm_plan.MAIN_TILES, "PanelTiles": gemm_plan.PANEL_TILES}
        expected |= {"StageRows": gemm_plan.STAGE_ROWS, "BiasRows": gemm_plan.BIAS_ROWS}
        _, deep, wide, both = gemm_plan.TILES_BY_GROUP
        expected |= {"DeepBlockTiles": deep, "WideBlockTiles": wide}
        self.assertEqual(found, expected)
        self.assertEqual(both, wide)

    def test_counts_of_pointwise_code(self):
        """The table from which costs are generated is that of today's code."""
        table = json.loads(chip_counts.TABLE.read_text())
        self.assertGreaterEqual(len(table), 40)
        names = ("add", "gelu_none", "div", "maximum")
        self.assertEqual(chip_counts.measure(*names), {name: table[name] for name in names})


def changed_cycles(program: str, **values: int) -> int:
    """The cycles of a program on the built-in chip with other values, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(with_values(CHIP, {name.replace("__", "."): value for name, value in values.items()}))
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CYCLES.format(program + "halt.s")],
            env=os.environ | {"ATALLA_CHIP_CONFIG": str(chip)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(run.stdout)


class TestUnitParameters(TestCase):
    def test_occupancy_of_roots(self) -> None:
        """Of four independent roots, each starts when the unit is free again: after 11 cycles, or after the next."""
        built_in = changed_cycles(ROOTS)
        self.assertEqual(changed_cycles(ROOTS, scalar__bf_root_occupancy_cycles=11), built_in)
        self.assertEqual(changed_cycles(ROOTS, scalar__bf_root_occupancy_cycles=1), built_in - 3 * 10)
        self.assertEqual(changed_cycles(ROOTS, scalar__bf_root_occupancy_cycles=20), built_in + 3 * 9)


instantiate_parametrized_tests(TestAnalyticModel)
