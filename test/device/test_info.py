# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla info`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.cli import info

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "torch_atalla", "info", *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=120, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class TestInfo(TestCase):
    def test_json(self):
        found = json.loads(command("--json", ATALLA_DEVICE_COUNT="3", ATALLA_DRAM_BYTES=str(1 << 30)))
        self.assertEqual(len(found["devices"]), 3)
        for ordinal, d in enumerate(found["devices"]):
            self.assertEqual(d["ordinal"], ordinal)
            self.assertEqual(d["memory"]["total"], 1 << 30)
            self.assertEqual(d["memory"]["free"], 1 << 30)
            self.assertEqual(d["memory"]["allocated"], 0)
        self.assertEqual(found["environment"]["ATALLA_DEVICE_COUNT"], "3")
        self.assertEqual(found["versions"]["torch"], torch.__version__)
        self.assertEqual(found["versions"]["torch_atalla"], torch_atalla.__version__)
        self.assertIn(found["versions"]["host_kernels"], ("baseline", "avx2", "avx512"))
        self.assertEqual(found["op_overloads"], len(torch_atalla.ops.support()))
        self.assertEqual(found["kernels"], len(torch_atalla.chip.kernels()))
        self.assertEqual(found["chip"]["chip"]["clock_hz"]["value"], 800_000_000)

    def test_host_kernels_are_those_in_use(self):
        if "baseline" not in info.build_info().get("isas", []):
            self.skipTest("this build has the kernels of one instruction set only")
        self.assertEqual(json.loads(command("--json", ATALLA_ISA="baseline"))["versions"]["host_kernels"], "baseline")

    def test_text(self):
        text = command()
        self.assertIn(f"torch_atalla {torch_atalla.__version__} on torch {torch.__version__}", text)
        self.assertRegex(text, r"ABI 1\.\d+, host kernels: (baseline|avx2|avx512)")
        self.assertEqual(
            len(re.findall(r"^  atalla:\d  Atalla Ax01, 800 MHz", text, re.M)), torch.atalla.device_count()
        )
        self.assertRegex(text, r"DRAM [\d,.]+ MiB: [\d,.]+ MiB free, 0.0 MiB reserved, 0.0 MiB allocated")
        self.assertRegex(text, r"chip.clock_hz +800000000 Hz +SDMA bench")
        self.assertRegex(text, r"built by g\+\+.*, configuration release")
        for name in info.SETTINGS:
            self.assertRegex(text, rf"(?m)^  {name} ")

    def test_memory_is_the_process_own(self):
        before = info.describe_device(0)["memory"]
        x = torch.empty(30 << 20, dtype=torch.uint8, device="atalla:0")
        after = info.describe_device(0)["memory"]
        self.assertEqual(after["allocated"] - before["allocated"], x.nbytes)
        self.assertLessEqual(after["allocated"], after["reserved"])

    def test_settings_are_complete(self):
        """Every variable of the package that the sources read is printed, and all that they read are on the page."""
        read = set()
        for source in [*ROOT.glob("csrc/**/*.cpp"), *ROOT.glob("csrc/**/*.h"), *ROOT.glob("torch_atalla/**/*.py")]:
            read.update(
                re.findall(
                    r'\b(?:getenv|read_env\w*|environ\.get|environ|variable)[(\[]"([A-Z]\w+)"', source.read_text()
                )
            )
        self.assertGreaterEqual(len(read), 6)
        self.assertLessEqual({name for name in read if "ATALLA_" in name}, set(info.SETTINGS))
        page = (ROOT / "docs/reference/environment.md").read_text()
        self.assertEqual(sorted(name for name in read | {*info.SETTINGS} if f"`{name}`" not in page), [])

    def test_without_devices(self):
        found = json.loads(command("--json", ATALLA_DEVICE_COUNT="0"))
        self.assertEqual((found["devices"], found["chip"]), ([], {}))
