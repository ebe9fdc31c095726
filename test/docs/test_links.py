# SPDX-License-Identifier: BSD-3-Clause
"""Links and paths in the documentation lead to files, and docs/index.md lists every page."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Folders whose files name pages of the documentation.
FOLDERS = ("benchmarks", "csrc", "examples", "test", "tools", "torch_atalla")

# What the pages name that is not ours: PyTorch's files, generated ones, and those of examples.
ELSEWHERE = {
    *("native_functions.yaml", "kernel_parameters.h", "script.py", "file.py", "model.py", "train.py"),
    *("fx_graph_readable.py", "fx_graph_runnable.py", "fx_graph_transformed.py"),
}


def tracked(*where: str) -> list[str]:
    return subprocess.run(["git", "ls-files", *where], cwd=ROOT, capture_output=True, text=True).stdout.split()


def links(page: Path) -> set[Path]:
    """The files that the relative links of a page lead to."""
    found = re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", page.read_text())
    return {(page.parent / target).resolve() for target in found if "://" not in target}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page: Path) -> None:
    assert [str(target) for target in links(page) if not target.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_are_files(page: Path) -> None:
    paths = re.findall(r"(?<![\w/.*])(?:benchmarks|docs|examples|test|tools)/[\w./-]*\w\.[a-z]+\b", page.read_text())
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_are_those_of_files(page: Path) -> None:
    known = {Path(name).name for name in tracked()} | ELSEWHERE
    names = re.findall(r"(?<![\w/.*<>-])[\w-]+\.(?:cpp|h|py|toml|yaml)\b", page.read_text())
    quotes = {"misuse", "architectures", "conformance", "triton-conformance"}  # messages, and files of other projects
    assert page.stem in quotes or sorted(set(names) - known) == []


def test_sources_name_pages_that_exist() -> None:
    missing = [
        f"{name}: {page}"
        for name in tracked("Makefile", *FOLDERS)
        if name.endswith((".c", ".cpp", ".h", ".py", ".toml", ".yaml", "Makefile"))
        for page in re.findall(r"(?<![\w/])docs/[\w/-]+\.md\b", (ROOT / name).read_text())
        if not (ROOT / page).exists()
    ]
    assert missing == []


def test_the_index_lists_every_page() -> None:
    assert set(PAGES) - links(ROOT / "docs/index.md") == {ROOT / "docs/index.md"}
