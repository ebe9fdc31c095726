# SPDX-License-Identifier: BSD-3-Clause
"""The worked examples of the guides to chip code: their code is run, and their patch is applied."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from torch.testing._internal.common_utils import TestCase, run_tests, slowTest

from torch_atalla.compiler.targets.chip.select import SELECTORS

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language; "" for those without one."""
    text = (ROOT / "docs/guides" / page).read_text()
    return [body for found, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if found == language]


class TestKernel(TestCase):
    PAGE = "writing-a-chip-kernel.md"

    def test_example(self):
        out = io.StringIO()
        with mock.patch.dict(SELECTORS), contextlib.redirect_stdout(out):
            exec(compile("\n".join(blocks(self.PAGE, "python")), self.PAGE, "exec", dont_inherit=True), {})
        shown = blocks(self.PAGE, "text")[0].strip().removesuffix(", ...]")
        self.assertIn(shown, out.getvalue())


class TestInstruction(TestCase):
    PAGE = "adding-an-instruction.md"

    def patched(self, folder: str, *more_left_out: str) -> Path:
        """A copy of the checkout and its build with the page's patch."""
        copy = Path(folder) / "copy"
        left_out = shutil.ignore_patterns(".git", ".venv", "bin", "__pycache__", "docs", "examples", *more_left_out)
        shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
        patch = "".join(blocks(self.PAGE, "diff"))
        command = ["git", "apply", "-C1", "-"]
        done = subprocess.run(command, cwd=copy, input=patch, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, msg=done.stderr)
        return copy

    def run_in(self, copy: Path, *command: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(copy), "ATALLA_HOST_ISA_ONLY": "1"}
        done = subprocess.run(
            [sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, timeout=900
        )
        self.assertEqual(done.returncode, 0, msg=done.stdout[-2000:] + done.stderr[-2000:])
        return done.stdout

    def test_table(self):
        """The patch applies, and the table is valid with its row."""
        with tempfile.TemporaryDirectory() as folder:
            copy = self.patched(folder, "build")
            self.run_in(copy, "-m", "tools.codegen.isa")
            text = "from torch_atalla import isa; print(isa.assemble('max.vv v1, v2, v3').slots()[0, 0])"
            self.assertEqual(int(self.run_in(copy, "-c", text)), 0x00018100CE)

    @slowTest
    def test_example(self):
        """The engine is built with the patch: the example runs, and random programs have the interpreter's results."""
        with tempfile.TemporaryDirectory() as folder:
            copy = self.patched(folder)
            self.run_in(copy, "tools/build.py", "sim")
            (code,) = blocks(self.PAGE, "python")
            self.run_in(copy, "-c", code)
            self.run_in(copy, "-m", "pytest", "-q", "test/isa/test_isa_engine.py", "-k", "test_random_programs")


if __name__ == "__main__":
    run_tests()
