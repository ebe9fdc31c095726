# SPDX-License-Identifier: BSD-3-Clause
"""Examples of other libraries' documentation (benchmarks/libraries) run wholly natively and match the CPU."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch

from tools import library_table
from tools.comparison import difference

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", library_table.NAMES)
@pytest.mark.filterwarnings("ignore")
def test_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())  # some write variables, of which others take notice
    try:
        result = library_table.run(name)
    except ImportError as error:  # some import what they need when they are called
        pytest.skip(f"needs requirements-ecosystem.txt: {error}")
    assert not result.missing
    assert result.error <= result.tolerance
    assert result.launches > 0


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements-ecosystem.txt").read_text() + (ROOT / "requirements-demo.txt").read_text()
    lines += (ROOT / "requirements.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", lines, re.MULTILINE))


def test_each_library_is_pinned_and_on_the_page() -> None:
    rows = re.findall(r"^\| ([\w.-]+) \| (\d\S*) \|", library_table.PAGE.read_text(), re.MULTILINE)
    versions = pins()
    assert len(rows) == len(library_table.NAMES) >= 20
    for name, version in rows:
        assert versions[name] == version


def test_page() -> None:
    results = [
        library_table.Result("a", "1.0", "Its quickstart", 12, 1e-6, 1e-4, 30.0, 10.0),
        library_table.Result("b", "2.0", "Its README", missing="aten::roll"),
        library_table.Result("c", "3.0", "Its tutorial", 1200, 1.0, 1e-4, 30.0, 10.0),
    ]
    text = "\n".join(library_table.lines(results))
    assert "1 of 3 examples run wholly on the chip" in text
    assert "| a | 1.0 | Its quickstart | yes | 12 | 1.0e-06 | 1e-04 | 30 | 10 | 3.0 |" in text
    assert "| b | 2.0 | Its README | no: `aten::roll` | | | | | | |" in text
    assert "| c | 3.0 | Its tutorial | no | 1,200 | 1.0e+00 |" in text


def test_differences() -> None:
    ones = torch.ones(3)
    assert difference(ones, ones) == 0
    assert difference(ones + 0.5, ones) == 0.5
    assert difference(ones, ones.double()) == float("inf")
    assert difference(ones[:2], ones) == float("inf")
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3])) == float("inf")
    assert difference(torch.tensor([1.0, torch.inf]), torch.tensor([1.0, 2.0])) == float("inf")
    assert difference(torch.zeros(2), torch.zeros(2)) == 0
