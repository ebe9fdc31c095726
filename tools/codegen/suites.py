# SPDX-License-Identifier: BSD-3-Clause
"""The table of test files in docs/guides/testing.md, from their docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .. import pages
from ..pages import ROOT


def summary(path: Path) -> str:
    """The first paragraph of the module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if not docstring:
        raise SystemExit(f"{path.relative_to(ROOT)} has no docstring")
    return re.sub(r"\s+", " ", docstring.partition("\n\n")[0]).replace("|", "\\|")


def page() -> str:
    folder = ROOT / "test"
    found = (path for path in folder.rglob("*.py") if "data" not in path.parts)
    files = sorted(found, key=lambda path: (path.parent != folder, path))
    table = pages.table("file | what it is about", ((path.relative_to(ROOT), summary(path)) for path in files))
    return pages.with_section(pages.DOCS / "guides/testing.md", "suites", table)
