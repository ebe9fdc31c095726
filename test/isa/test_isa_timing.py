# SPDX-License-Identifier: BSD-3-Clause
"""Cycles that the device reports against those of executed code, kernel by kernel; and what parameters of single units
change."""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
)

from torch_atalla.explorer.space import with_values

warnings.filterwarnings("ignore", category=FutureWarning)

ROOT = Path(__file__).resolve().parents[2]
CHIP = (ROOT / "csrc/sim/chip.toml").read_text()
ROOTS = "".join(f"{name} x{20 + k}, x1\n" for k, name in enumerate(("rcp.bf", "sqrt.bf", "rcp.bf", "sqrt.bf")))
CYCLES = "from torch_atalla import isa\nprint(isa.run(isa.assemble({!r}), chip=0).cycles)"

CHIPS = {
    "constant": {},
    "array64": {"array.rows": 64, "array.columns": 64, "array.latency_cycles": 85},
    "details": {"scratchpad.ports": 1, "instruction_cache.bytes": 131_072, "data_cache.bytes": 4096},
    "mesh": {"core.count": 4, "core.scratchpads": "own", "network.topology": "mesh", "network.columns": 2},
}
KERNELS = """
import json, torch
from benchmarks.isa_cases import Case, cases, tensor
from benchmarks.isa_codegen import cycles
chosen = [case for case in cases() if "1024" not in case.name]
for dim in (0, 1):
    inputs = [tensor(256, 128), tensor(256, 128).t().contiguous().t(), tensor(256, 256)[:, ::2]]
    joined = torch.empty_like(torch.cat(inputs, dim))
    call = lambda *x, dim=dim: torch.cat(x, dim)
    chosen.append(Case(f"cat {dim}", "cat", inputs, joined, {"dim": dim}, functional=call))
print(json.dumps([(case.name, *cycles(case)) for case in chosen]))
"""
OVERHEAD = 64  # of a launch: launch.overhead_cycles


class TestReportedCycles(TestCase):
    @parametrize("chip", sorted(CHIPS))
    def test_kernels(self, chip):
        """The device reports what executed code takes."""
        found = on_chip(KERNELS, CHIPS[chip])
        self.assertGreaterEqual(len(found), 30)
        limit = 0.03 if chip == "details" else 0.01  # what caches hold depends on what ran before
        wrong = [(name, code, told) for name, code, told in found if abs(told - OVERHEAD - code) > limit * code]
        self.assertEqual(wrong, [])


def on_chip(code: str, values: dict[str, Any]) -> Any:
    """What a process prints, as JSON, that has the built-in chip with other values."""
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(with_values(CHIP, values))
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env=os.environ | {"ATALLA_CHIP_CONFIG": str(chip)}, cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(run.stdout.splitlines()[-1])


def changed_cycles(program: str, **values: int) -> int:
    """The cycles of a program on the built-in chip with other values."""
    return on_chip(CYCLES.format(program + "halt.s"), {name.replace("__", "."): v for name, v in values.items()})


class TestUnitParameters(TestCase):
    def test_occupancy_of_roots(self) -> None:
        """Of four independent roots, each starts when the unit is free again: after 11 cycles, or after the next."""
        built_in = changed_cycles(ROOTS)
        self.assertEqual(changed_cycles(ROOTS, scalar__bf_root_occupancy_cycles=11), built_in)
        self.assertEqual(changed_cycles(ROOTS, scalar__bf_root_occupancy_cycles=1), built_in - 3 * 10)
        self.assertEqual(changed_cycles(ROOTS, scalar__bf_root_occupancy_cycles=20), built_in + 3 * 9)


instantiate_parametrized_tests(TestReportedCycles)
