# SPDX-License-Identifier: BSD-3-Clause
"""Kernels against the values that their contracts give (test/support/kernel_values.py), in a process whose device is
not that of PyTorch."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class TestValues(unittest.TestCase):
    def test_values(self) -> None:
        command = [sys.executable, "-W", "ignore", str(ROOT / "test/support/kernel_values.py")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-8000:])


if __name__ == "__main__":
    unittest.main()
