# SPDX-License-Identifier: BSD-3-Clause
"""Kernels against the values that their contracts give (test/kernels/kernel_values.py), in a process whose device is
not that of PyTorch."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class TestValues(unittest.TestCase):
    def test_values(self) -> None:
        command = [sys.executable, "-W", "ignore", str(ROOT / "test/kernels/kernel_values.py")]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-8000:])


if __name__ == "__main__":
    unittest.main()
