# SPDX-License-Identifier: BSD-3-Clause
"""Figures that README.md and the comparison repeat are those of the pages that commands write."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMPARISON = (ROOT / "docs/reference/comparison.md").read_text()
REFERENCE = {path.name: path.read_text() for path in (ROOT / "docs/reference").glob("*.md")}
GUIDES = {path.name: path.read_text() for path in (ROOT / "docs/guides").glob("*.md")}


def rows(section: str) -> list[list[str]]:
    """The cells of the tables in a section, without heads."""
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines][1:]


MEASURED = rows(README.partition("## Measured results")[2].partition("\n## ")[0])


@pytest.mark.parametrize(("subject", "result", "where"), [row for row in MEASURED if re.search(r"\d", row[1])])
def test_figures_of_the_readme(subject: str, result: str, where: str) -> None:
    found = re.search(r"docs/(reference|guides)/([\w-]+\.md)", where)
    assert found, f"{subject}: name the page of the figure"
    page = (REFERENCE if found[1] == "reference" else GUIDES)[found[2]]
    numbers = re.findall(r"\d[\d,.]*\d|\d", result)
    assert [number for number in numbers if not re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.]\d)", page)] == []


def test_readme_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= 100


def test_figures_of_the_comparison() -> None:
    """Each runtime's row has the numbers of the full table of MiniLM."""
    full = REFERENCE["benchmarks-loadables.md"].partition("### minilm")[2].partition("\n### ")[0]
    head = next(line for line in full.splitlines() if line.startswith("| runtime"))
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    measured = {row[0]: dict(zip(columns, row)) for row in rows(full)}
    part = COMPARISON.partition("| runtime | save s")[2].partition("\n\n")[0]
    compared = rows("| runtime | save s" + part)
    assert len(compared) == 3
    for name, save, load, time in compared:
        row = measured[name]
        assert (save, load, time) == (row["save s"], row["load ms"], row["1 thread ms"]), name


@pytest.mark.parametrize(
    ("figure", "page", "stated"),
    [
        (r"(\d+) \| \1 ", "opinfo_status.md", "{0} of {0} OpInfos"),
        (r"names: (\d+) present", "cuda-names.md", "{0} names of `torch.cuda`"),
    ],
)
def test_figures_about_coverage(figure: str, page: str, stated: str) -> None:
    found = re.search(figure, REFERENCE[page])
    assert found is not None and stated.format(found[1]) in COMPARISON
