# SPDX-License-Identifier: BSD-3-Clause
"""docs/tutorials/compile.md: the scripts of examples/compile, each with what it prints.

    python -m tools.codegen.tutorial

test/docs/test_examples.py holds the page to the scripts, but for the numbers that they print.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "examples/compile"
PAGE = ROOT / "docs/tutorials/compile.md"
ORDER = (
    *("backends", "capture", "custom_backend", "patterns", "dynamic_shapes"),
    *("memory", "modes", "debugging", "cache"),
)

INTRODUCTION = """# torch.compile by example

Each section is a script of examples/compile, and what it printed on this page's last update (`make docs`). Times are of
the machine that wrote it; cycles are simulated and the same everywhere. [Compile and export](../guides/compile.md)
describes modes and options."""


def output(name: str) -> str:
    """What a script prints, without log lines."""
    words = [sys.executable, "-W", "ignore", str(SCRIPTS / f"{name}.py")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    if done.returncode:
        raise RuntimeError(f"examples/compile/{name}.py: exit status {done.returncode}\n{done.stderr}")
    return done.stdout.strip()


def without_numbers(text: str) -> str:
    """For comparison: numbers differ from machine to machine, and so do spaces around them."""
    return re.sub(r" +", " ", re.sub(r"\d[\d.,]*(e[-+]\d+)?", "N", text))


def section(name: str, printed: str) -> str:
    source = (SCRIPTS / f"{name}.py").read_text()
    title, _, explanation = (ast.get_docstring(ast.parse(source)) or "").partition(":")
    code = source.split('"""\n', 2)[1].partition("from __future__ import annotations\n")[2].strip()
    about = "\n\n".join(part for part in explanation.strip().split("\n\n") if not part.startswith("python "))
    text = f"{about[0].upper()}{about[1:]}"
    return f"## {title}\n\n{text}\n\n```python\n{code}\n```\n\n```text\n{printed}\n```"


def page() -> str:
    return "\n\n".join([INTRODUCTION, *(section(name, output(name)) for name in ORDER)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
