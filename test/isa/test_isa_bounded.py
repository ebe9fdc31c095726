# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that depend on data in Atalla code: against the CPU, for every count, and for dynamic sizes of inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_atalla import load_loadable, save_loadable
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.check import check_network

TABLE = torch.linspace(-1, 1, 16).view(4, 4).bfloat16()
CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "rows": lambda x, m: x[m] * 2,
    "places": lambda x, m: (x > 0).nonzero(),
    "elements": lambda x, m: x.masked_select(x > 0.5),
    "linear": lambda x, m: F.linear(x[m], TABLE),
    "sum": lambda x, m: x[m].sum(0),
    "softmax": lambda x, m: x[m].softmax(0),
    "order": lambda x, m: x[m].sort(0),
    "rows of two masks": lambda x, m: torch.cat([x[m], x[~m]]),
    "distinct elements": lambda x, m: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "written rows": lambda x, m: x.masked_scatter(m[:, None], x[m] * 2),
}


class Module(nn.Module):
    def __init__(self, case: Callable) -> None:
        super().__init__()
        self.case = case

    def forward(self, x: torch.Tensor, m: torch.Tensor) -> Any:
        return self.case(x, m)


def inputs(bits: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(len(bits) + bits.count("1"))
    return torch.randn(len(bits), 4, generator=generator).bfloat16(), torch.tensor([bit == "1" for bit in bits])


def exported(case: Callable, dynamic: Any = None) -> torch.export.ExportedProgram:
    shapes = None if dynamic is None else ({0: dynamic}, {0: dynamic})
    return torch.export.export(Module(case), inputs("101101"), dynamic_shapes=shapes)


def check(case: Callable, program: Any, several: tuple[str, ...]) -> None:
    for bits in several:
        expected, found = case(*inputs(bits)), program(*[arg.to("atalla") for arg in inputs(bits)])
        pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
        for right, mine in pairs:
            torch.testing.assert_close(mine.cpu(), right, rtol=0.03, atol=0.03)


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, tmp_path: Path) -> None:
    save_loadable(exported(CASES[name]), tmp_path / "m.atl", engine="isa")
    program = load_loadable(tmp_path / "m.atl", engine="isa")
    check(CASES[name], program, ("101101", "111111", "010000", "000000"))


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_dynamic_sizes(tmp_path: Path) -> None:
    save_loadable(exported(CASES["rows"], torch.export.Dim("n", min=5, max=7)), tmp_path / "m.atl", engine="isa")
    check(CASES["rows"], load_loadable(tmp_path / "m.atl", engine="isa"), ("10110", "111111", "0100001"))


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_conversion_to_bfloat16(tmp_path: Path) -> None:
    """The report states the error of the valid part."""
    x, m = inputs("101101")
    program = torch.export.export(Module(CASES["sum"]), (x.float(), m))
    report = save_loadable(program, tmp_path / "m.atl", engine="isa", convert="bfloat16")
    assert report.code["cosine"] > 0.999


def test_without_the_device() -> None:
    """The check of the code alone, against what the captured graph gives."""
    check_network(compile_model(exported(CASES["rows"])))


def at_most_three(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    rows = x[m]
    torch._check(rows.shape[0] <= 3)
    return rows


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_a_count_above_the_declared_bound_stops_the_program(tmp_path: Path) -> None:
    program = torch.export.export(Module(at_most_three), inputs("100001"))
    save_loadable(program, tmp_path / "m.atl", engine="isa")
    loaded = load_loadable(tmp_path / "m.atl", engine="isa")
    check(at_most_three, loaded, ("100001", "110001", "000000"))
    with pytest.raises(RuntimeError, match="FAULT_KERNEL"):
        loaded(*[arg.to("atalla") for arg in inputs("111100")])
        torch.atalla.synchronize()
