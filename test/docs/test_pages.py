# SPDX-License-Identifier: BSD-3-Clause
"""The pages of docs/ that programs write without measuring anything (tools/pages.py) are current."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_version import recorded

from tools import pages

COUNTS = "reference/code-size.md"  # of lines, which every commit changes
OF_A_CPU_BUILD = ("reference/cuda-names.md", "reference/dispatch-keys.md")


@recorded
@pytest.mark.parametrize("name", [name for name in pages.PAGES if name != COUNTS])
def test_is_current(name: str) -> None:
    if name in OF_A_CPU_BUILD and torch.version.cuda is not None:
        pytest.skip("the record is of a build for the CPU")
    assert (pages.DOCS / name).read_text() == pages.text_of(name), f"run `python -m tools.pages {name}`"


def test_tables_and_sections(tmp_path: Path) -> None:
    lines = pages.table("name | number:", [("a", 1), ("", 2)])
    assert lines == ["| name | number |", "| --- | ---: |", "| a | 1 |", "| | 2 |"]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin: x -->\nold\n<!-- end: x -->\nafter\n")
    pages.write_section(page, "x", lines[:1])
    assert page.read_text() == "before\n<!-- begin: x -->\n| name | number |\n<!-- end: x -->\nafter\n"
    with pytest.raises(ValueError, match="expected the lines '<!-- begin: y -->'"):
        pages.write_section(page, "y", [])
