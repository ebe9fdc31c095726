# SPDX-License-Identifier: BSD-3-Clause
"""The version and the versions of torch, where files repeat them."""

import re
import tomllib
from pathlib import Path

from tools.build import Build
from tools.prebuilt import version
from torch_atalla.driver import torch_versions

ROOT = Path(__file__).resolve().parents[2]


def test_files_repeat_the_version() -> None:
    changelog = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert changelog and citation and changelog[1] == citation[1] == version()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version())


def test_tested_versions_of_torch_have_one_home() -> None:
    """The pin, the requirement of the build, the environment of the guide and the page name the versions of TESTED."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert torch_versions.requirement(torch_versions.TESTED) in requires
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned and torch_versions.minor(pinned[1]) == torch_versions.TESTED[0]
    other = re.search(r"^make test TORCH=(\S+)$", (ROOT / "docs/guides/install.md").read_text(), re.MULTILINE)
    assert other and torch_versions.minor(other[1]) == torch_versions.TESTED[-1]
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    assert f"torch {' and torch '.join(torch_versions.TESTED)}" in page


def test_pages_name_the_versions_of_python() -> None:
    """Those of the classifiers."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = [text.rpartition(" ")[2] for text in classifiers if text.startswith("Programming Language :: Python :: 3.")]
    for page in ("README.md", "docs/guides/install.md"):
        assert f"Python {found[0]} to {found[-1]}" in (ROOT / page).read_text()


def test_installed_pkg_config_file_has_the_version(tmp_path: Path, monkeypatch) -> None:
    for folder in ("csrc", "torch_atalla/version.py"):
        target = tmp_path / folder
        target.parent.mkdir(exist_ok=True)
        target.symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    Build("release").install_headers()
    assert f"Version: {version()}\n" in (tmp_path / "torch_atalla/share/pkgconfig/atalla.pc").read_text()
