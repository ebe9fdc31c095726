# SPDX-License-Identifier: BSD-3-Clause
"""Writes the table of test files in docs/guides/testing.md from their docstrings: python -m tools.codegen.suites"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guides/testing.md"
BEGIN, END = "<!-- suites: begin -->\n", "<!-- suites: end -->\n"


def summary(path: Path) -> str:
    """The first paragraph of the module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if not docstring:
        raise SystemExit(f"{path.relative_to(ROOT)} has no docstring")
    return re.sub(r"\s+", " ", docstring.partition("\n\n")[0]).replace("|", "\\|")


def table() -> str:
    lines = ["| file | what it is about |", "| --- | --- |"]
    folder = ROOT / "test"
    files = [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]
    lines += [f"| {path.relative_to(ROOT)} | {summary(path)} |" for path in files]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """`text` with its table replaced."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
