# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla doctor`: every check on a sound installation and on the fault that it is there to find."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

from tools.source_digest import digest
from torch_atalla.cli import doctor
from torch_atalla.driver import host, installation, torch_versions

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "torch_atalla", "doctor", *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=120, cwd=ROOT,
    )  # fmt: skip


class TestDoctor(TestCase):
    def assertFinding(self, finding: doctor.Finding, status: str, fix: str = "") -> None:
        self.assertEqual(finding.status, status, finding.text)
        self.assertIn(fix, finding.fix)
        self.assertEqual(bool(finding.fix), status != "ok")

    def test_command(self):
        done = command("--json", ATALLA_NUM_THREADS="1", ATALLA_NUM_THREAD="2")
        found = {finding["check"]: finding for finding in json.loads(done.stdout)}
        failures = [finding for finding in found.values() if finding["status"] == "fail"]
        self.assertEqual((done.returncode, failures), (0, []), done.stderr)
        self.assertEqual(found["threads"]["status"], "ok" if len(os.sched_getaffinity(0)) == 1 else "warn")
        self.assertEqual(found["settings"]["text"], "nothing reads ATALLA_NUM_THREAD")
        self.assertIn("a matrix product is right on", found["computation"]["text"])

    def test_versions(self):
        self.assertFinding(doctor.versions(["2.13", "2.15"], "2.13.1+cpu"), "ok")
        self.assertFinding(doctor.versions(["2.13", "2.15"], "2.14.0"), "fail", "install the wheel")

    def test_extension_that_does_not_load(self):
        code = (
            f"import sys, torch; torch.__version__ = '2.99.0'; sys.path.insert(0, {str(ROOT)!r}); import torch_atalla"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
            env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )  # fmt: skip
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr,
            r"ImportError: torch_atalla was built for torch 2\.\d+.*, and torch 2\.99\.0 is installed, which is not",
        )
        self.assertIn("does not load: bad symbol", installation.explain(ImportError("bad symbol")))

    def test_versions_of_torch(self):
        """Tested and built, tested only, neither; and the requirement of a wheel."""
        self.assertIsNone(installation.torch_mismatch(["2.13"], "2.13.1+cpu"))
        text = installation.torch_mismatch(["2.13"], f"{torch_versions.TESTED[-1]}.0")
        self.assertRegex(text, r"^torch_atalla was built for torch 2\.13, and torch 2\.\d+\.0 is installed$")
        self.assertIn("was not built. torch 2.99.0 is installed, which is not among the tested versions (2.13",
                      installation.torch_mismatch([], "2.99.0"))  # fmt: skip
        self.assertEqual(torch_versions.requirement(["2.15", "2.13"]), "torch>=2.13,<2.16,!=2.14.*")
        self.assertEqual(torch_versions.requirement(["2.9"]), "torch>=2.9,<2.10")
        self.assertEqual(torch_versions.folder_name("2.15.0+cu132"), "torch-2.15")
        self.assertIn(torch_versions.minor(torch.__version__), installation.built_versions())

    def test_stale_build(self):
        self.assertFinding(doctor.stale_build(ROOT, digest(ROOT)), "ok")
        self.assertFinding(doctor.stale_build(ROOT, "0" * 64), "warn", "make build")
        self.assertFinding(doctor.stale_build(ROOT / "docs", None), "ok")  # no checkout

    def test_instruction_set(self):
        everything = list(host.REQUIRED_FLAGS)
        self.assertFinding(doctor.instruction_set("avx512", everything, everything), "ok")
        self.assertFinding(doctor.instruction_set("avx2", everything, ["avx2"]), "warn", "install a wheel")
        self.assertEqual(host.supported("flags : sse4_2 ssse3 popcnt avx2 fma f16c bmi2"), ["baseline", "avx2"])

    def test_host(self):
        self.assertFinding(doctor.huge_pages("always [madvise] never\n"), "ok")
        self.assertFinding(doctor.huge_pages("always madvise [never]\n"), "warn", "echo madvise >")
        self.assertFinding(doctor.memory(8 * GIB, 2, 4 * GIB), "ok")
        self.assertFinding(doctor.memory(3 * GIB, 2, 4 * GIB), "warn", "ATALLA_DRAM_BYTES")
        self.assertFinding(doctor.memory(GIB // 2, 2, 4 * GIB), "fail", "free memory")
        self.assertFinding(doctor.threads(2, 2), "ok")
        self.assertFinding(doctor.threads(8, 2), "warn", "ATALLA_NUM_THREADS=2")
        self.assertFinding(doctor.disk(Path("/proc/atalla"), "programs"), "fail" if os.geteuid() else "warn")

    def test_a_check_that_raises_is_a_failure(self):
        def broken():
            raise OSError("no such device")

        original = doctor.checks
        doctor.checks = lambda: iter([broken])
        try:
            (found,) = doctor.diagnose()
        finally:
            doctor.checks = original
        self.assertFinding(found, "fail", "install the wheel")
        self.assertEqual(found.text, "OSError: no such device")

    def test_guide_shows_this_output(self):
        """The page has the checks in their order, with texts that differ in numbers and places only."""
        page = (ROOT / "docs/guides/install.md").read_text()
        shown = re.search(r"```text\n(ok   versions.*?)```", page, re.DOTALL)[1]
        names = re.findall(r"^(?:ok  |warn|fail) (\w+(?: \w+)?)  ", shown, re.MULTILINE)
        self.assertEqual(names, [finding.check for finding in doctor.diagnose()])
        self.assertRegex(shown.splitlines()[-1], r"^\d+ ok, \d+ warnings, \d+ failures$")


if __name__ == "__main__":
    run_tests()
