# SPDX-License-Identifier: BSD-3-Clause
"""Variants of the chip: grids, searches, constraints, studies that go on, and the page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from browser import CHROMIUM, Browser
from torch import nn

import torch_atalla
from torch_atalla.cli.explore import main
from torch_atalla.explorer.space import Constraint, Variant, parse, with_values

pytest.importorskip("optuna", reason="the extra torch_atalla[explore] is missing")
pytest.importorskip("plotly", reason="the extra torch_atalla[explore] is missing")
pytest.importorskip("joblib", reason="the extra torch_atalla[explore] is missing")

ROOT = Path(__file__).resolve().parents[2]
SPACE = {"array.rows": [32, 64], "sdma.beat_cycles": [1.0, 2.0]}


def mlp() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).eval(), (torch.randn(16, 64),)


def explore(folder: Path, vary: dict, **options) -> torch_atalla.explorer.Study:
    module, args = mlp()
    return torch_atalla.explore({"mlp": module}, vary, args=args, folder=folder, jobs=1, progress=False, **options)


def test_grid(tmp_path: Path) -> None:
    """Every combination once, the default chip with the cycles that code has on it; then the study goes on."""
    study = explore(tmp_path / "study", SPACE, objective=("cycles", "error"))
    assert len(study.points) == 4 and not any(point.refused for point in study.points)
    cycles = {tuple(point.values.values()): point.totals["cycles"] for point in study.points}
    assert cycles[32, 1.0] < cycles[32, 2.0] and cycles[64, 1.0] < cycles[64, 2.0]
    assert len(set(cycles.values())) == 4
    assert all(1e-4 < point.totals["error"] < 0.02 for point in study.points)
    assert all(point.totals["seconds"] == point.totals["cycles"] / 800e6 for point in study.points)
    module, args = mlp()
    saved = {"args": args, "engine": "isa", "convert": "bfloat16"}
    report = torch_atalla.save_loadable(module, tmp_path / "mlp.atl", **saved)
    assert cycles[32, 2.0] == report.code["cycles"]
    assert study.front()[0].values["sdma.beat_cycles"] == 1.0
    again = explore(tmp_path / "study", SPACE, objective=("cycles", "error"))
    assert again == study
    with pytest.raises(ValueError, match="another objective"):
        explore(tmp_path / "study", SPACE)
    study.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(title in page for title in ("Pareto front", "Parallel coordinates", "Effect of each parameter"))
    assert page.count("Plotly.newPlot") == 3 and 'src="http' not in page


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
def test_page_in_chromium(tmp_path: Path) -> None:
    """Three charts without a network. ATALLA_WRITE_SCREENSHOTS=1 takes the picture of docs/guides/explore.md from the
    page of benchmarks/exploration.py."""
    page, write = tmp_path / "study.html", os.environ.get("ATALLA_WRITE_SCREENSHOTS") == "1"
    explore(tmp_path / "study", SPACE, objective=("cycles", "error")).save(page)
    browser = Browser(tmp_path / "profile")
    try:
        browser.window(1200, 1400)
        browser.open(ROOT / "build/exploration/study.html" if write else page, "document.readyState === 'complete'")
        browser.paint()
        assert browser.evaluate("document.querySelectorAll('.js-plotly-plot .main-svg').length") >= 3
        # Parallel coordinates are drawn by WebGL, and Chromium says that it has no graphics card.
        assert [text for text in browser.errors if "WebGL" not in text and "GL Driver" not in text] == []
        browser.screenshot(ROOT / "docs/static/explore.png" if write else tmp_path / "page.png")
    finally:
        browser.close()


def test_dask_gives_the_same_numbers(tmp_path: Path) -> None:
    joblib, distributed = pytest.importorskip("joblib"), pytest.importorskip("distributed")
    space = {"array.rows": [32, 0], "sdma.beat_cycles": [1.0]}
    here = explore(tmp_path / "here", space)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        there = explore(tmp_path / "there", space)
    assert there == here and len(here.feasible) == 1


def test_compiler_options_and_constraints(tmp_path: Path) -> None:
    space = {"compile.weights": ["float32", "int8"], "sdma.beat_cycles": [1.0, 2.0]}
    study = explore(tmp_path, space, objective=("error", "cycles"), constraints=["error<=1e-4", "sdma.beat_cycles<=1"])
    assert [point.refused for point in study.points if point.refused] == ["constraint sdma.beat_cycles<=1"] * 2
    narrow = next(point for point in study.points if point.beyond)
    assert narrow.values["compile.weights"] == "int8" and narrow.totals["error"] > 1e-4
    assert [point.values["compile.weights"] for point in study.feasible] == ["float32"]


def test_code_of_each_variant(tmp_path: Path) -> None:
    """Its cycles are those of a file with the code, saved and run on the variant's chip; and cores pay."""
    space = {"compile.engine": ["isa"], "dram.preset": ["constant", "hbm2_2000"], "core.count": [1, 4]}
    study = explore(tmp_path / "study", space | {"core.scratchpads": ["own"]}, objective=("cycles", "error"))
    cycles = {(p.values["dram.preset"], p.values["core.count"]): p.totals["cycles"] for p in study.points}
    module, args = mlp()
    saved = {"args": args, "engine": "isa", "convert": "bfloat16"}
    report = torch_atalla.save_loadable(module, tmp_path / "mlp.atl", **saved)
    assert cycles["constant", 1] == report.code["cycles"]
    assert cycles["hbm2_2000", 4] < 0.7 * cycles["hbm2_2000", 1] < 0.7 * cycles["constant", 1]
    assert all(1e-4 < point.totals["error"] < 0.02 for point in study.points)
    with pytest.raises(ValueError, match="expected float32 beside compile.engine=isa"):
        explore(tmp_path / "other", {"compile.engine": ["isa"], "compile.weights": ["int8"]})


@pytest.mark.parametrize("search", ["random", "bayes"])
def test_searches(search: str, tmp_path: Path) -> None:
    space = {"sdma.beat_cycles": [1.0, 2.0, 3.0, 4.0], "sdma.setup_cycles": [8, 16]}
    study = explore(tmp_path, space, search=search, trials=5, seed=1)
    assert len(study.points) == 5 and len(study.feasible) == 5


def test_refused_chips_say_why(tmp_path: Path) -> None:
    study = explore(tmp_path, {"array.rows": [0, 16, 32]})
    assert len(study.feasible) == 1
    none, narrow = (point.refused for point in study.points if point.refused)
    assert "array.rows" in none and "0" in none
    assert "Atalla code does not run on a chip whose array.rows is 16; expected 32 or 64" in narrow


def test_bad_input(tmp_path: Path) -> None:
    for vary, text in (
        ({}, "nothing varies"),
        ({"array.depth": [1]}, "no chip parameter 'array.depth'"),
        ({"array.rows": []}, "has no values"),
        ({"compile.weights": ["int3"]}, "expected one of float32, bfloat16, int8"),
    ):
        with pytest.raises(ValueError, match=text):
            explore(tmp_path, vary)
    with pytest.raises(ValueError, match="objective: expected some of"):
        explore(tmp_path, SPACE, objective=("watts",))
    with pytest.raises(ValueError, match="expected an existing .pt2 or .atl"):
        torch_atalla.explore("missing.pt2", SPACE, folder=tmp_path)
    with pytest.raises(ValueError, match="expected name<=number"):
        Constraint.parse("cycles==3")
    with pytest.raises(ValueError, match="expected section.name=value"):
        parse("rows")


def test_values_in_a_chip_file() -> None:
    text = torch_atalla.chip.config_text()
    changed = with_values(text, {"dram.preset": "lpddr5_6400", "array.rows": 64, "sdma.beat_cycles": 1.5})
    lines = [new for new, old in zip(changed.splitlines(), text.splitlines(), strict=True) if new != old]
    assert [line.split(",")[0] for line in lines] == [
        'preset = { value = "lpddr5_6400"',
        "beat_cycles = { value = 1.5",
        "rows = { value = 64",
    ]
    assert Variant({"compile.weights": "float32"}).options() == {"weights": None}
    assert parse("dram.preset=ddr4_3200, hbm2_2000") == ("dram.preset", ["ddr4_3200", "hbm2_2000"])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    module, args = mlp()
    torch.export.save(torch.export.export(module, args), tmp_path / "mlp.pt2")
    torch_atalla.save_loadable(module, tmp_path / "fixed.atl", args=args, fallback="error")
    common = ["--vary", "dram.preset=constant,lpddr5_6400", "--jobs", "1", "-o", str(tmp_path / "study.html")]
    paths = [str(tmp_path / "mlp.pt2"), str(tmp_path / "fixed.atl")]
    assert main([*paths, *common, "--folder", str(tmp_path / "study")]) == 0
    assert "2 variants, 2 within the constraints" in capsys.readouterr().out
    assert (tmp_path / "study.html").stat().st_size > 1 << 20
    assert main([paths[0], "--vary", "array.depth=1", "--folder", str(tmp_path / "other")]) == 1
    assert "no chip parameter" in capsys.readouterr().err
