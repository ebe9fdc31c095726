# SPDX-License-Identifier: BSD-3-Clause
"""The comparison with SCALE-Sim (benchmarks/validate_chip.py): two layers, and the sums of the committed page."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import validate_chip
from benchmarks.isa_codegen import build
from benchmarks.validation import scalesim_runner
from benchmarks.validation.cases import NETWORKS, Layer
from benchmarks.validation.engines import case
from torch_atalla.compiler.targets.chip.place import run_network

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/validation.md").read_text()


def layers_named(*names: str) -> list[Layer]:
    every = [layer for layers in NETWORKS.values() for layer in layers]
    return [next(layer for layer in every if layer.name.startswith(name)) for name in names]


@pytest.mark.skipif(not scalesim_runner.installed(), reason=scalesim_runner.MISSING)
def test_two_layers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All differences have a cause, and a wrong figure is found."""
    monkeypatch.setattr(scalesim_runner, "FOLDER", tmp_path)  # no results of earlier runs
    found = validate_chip.compare(layers_named("scores", "layer2 shortcut"))
    assert [c.there["cycles"] for c in found] == [4 * (128 + 94), 2 * 4 * (784 + 94)]
    assert validate_chip.unexplained(found) == []
    wrong = replace(found[0], traffic=replace(found[0].traffic, measured=2 * found[0].traffic.measured))
    (line,) = validate_chip.unexplained([wrong])
    assert "DRAM traffic +50.0%" in line


def rows(section: str) -> list[dict[str, str]]:
    lines = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [dict(zip(cells[0], row)) for row in cells[2:]]


def total(row: dict[str, str], first: str, last: str) -> int:
    """Of the columns from `first` to the one before `last`."""
    names = list(row)
    return sum(int(row[name].replace(",", "") or 0) for name in names[names.index(first) : names.index(last)])


@pytest.mark.parametrize("section", ["Cycles of the array", "DRAM traffic"])
def test_rows_of_the_page_add_up(section: str) -> None:
    found = rows(section)
    assert len(found) > 20
    for row in found:
        expected = int(row["chip code"].replace(",", ""))
        assert abs(total(row, "SCALE-Sim", "chip code") / expected - 1) < validate_chip.LIMIT, row["layer"]


def test_every_layer_is_on_the_page() -> None:
    named = [row["layer"] for row in rows("DRAM traffic")]
    assert len(named) == sum(map(len, NETWORKS.values()))


def test_the_page_has_today_s_cycles() -> None:
    """Of some of its layers."""
    page = {row["layer"]: row["chip code"].replace(",", "") for row in rows("Time and utilisation")}
    for network in ("MiniLM-L6", "BERT-base"):
        for layer in NETWORKS[next(name for name in NETWORKS if name.startswith(network))]:
            if layer.both_computed:
                program, given = build(case(layer))
                cycles = run_network(program, program.code(), given).stats.cycles
                assert page[f"{network} {layer.name}"] == str(cycles), "run make validate"
