# SPDX-License-Identifier: BSD-3-Clause
"""The version and the requirement on torch, where files repeat them."""

import re
import tomllib
from pathlib import Path

from tools.build import Build
from tools.prebuilt import version

ROOT = Path(__file__).resolve().parents[2]


def test_files_repeat_the_version() -> None:
    changelog = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert changelog and citation and changelog[1] == citation[1] == version()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version())


def test_requirement_on_torch_is_the_minor_version_that_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (built,) = (name for name in project["build-system"]["requires"] if name.startswith("torch=="))
    assert re.sub(r"\.\d+$", ".*", built) in project["project"]["dependencies"]


def test_installed_pkg_config_file_has_the_version(tmp_path: Path, monkeypatch) -> None:
    for folder in ("csrc", "torch_atalla/version.py"):
        target = tmp_path / folder
        target.parent.mkdir(exist_ok=True)
        target.symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    Build("release").install_headers()
    assert f"Version: {version()}\n" in (tmp_path / "torch_atalla/share/pkgconfig/atalla.pc").read_text()
