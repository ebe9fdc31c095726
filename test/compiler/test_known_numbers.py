# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that a program reads from constants are sizes of the loadable, not of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torch_atalla import load_loadable, save_loadable
from torch_atalla.compiler.capture.known_numbers import with_known_numbers
from torch_atalla.loadable.errors import ExportError, UnsupportedOpsError


class Grid(nn.Module):
    """Makes coordinates from a table of sizes, as detectors do for feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sizes", torch.tensor([[2, 3]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = self.rows(), self.sizes[0, 1].item()
        torch._check(width == 3)
        y = torch.arange(height).view(height, 1) / height
        return (y * x + torch.arange(0, height).sum()).sum(0) * width

    def rows(self) -> Any:
        height = torch.tensor([[2, 3]])[0, 0].item()
        torch._check(height >= 0)
        return height


def saved(model: nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> Any:
    program = torch.export.export(model, inputs)
    save_loadable(program, path, fallback="error")
    return load_loadable(path)


def test_sizes_from_constants(tmp_path: Path) -> None:
    model, x = Grid(), torch.randn(6)
    loaded = saved(model, (x,), tmp_path / "grid.atl")
    assert torch.equal(loaded(x.to("atalla")).cpu(), model(x))
    assert torch.equal(loaded((2 * x).to("atalla")).cpu(), model(2 * x))


def test_program_without_such_numbers_is_the_same_object() -> None:
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    assert with_known_numbers(program) is program


class Counter(Grid):
    """Writes to the table before it reads: the number is no constant."""

    def rows(self) -> Any:
        self.sizes.add_(0)
        height = self.sizes[0, 0].item()
        torch._check(height >= 0)
        return height


def test_written_buffers_are_no_constants(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOpsError, match="_local_scalar_dense"):
        saved(Counter(), (torch.randn(6),), tmp_path / "counter.atl")


class Writes(Grid):
    """Writes what depends on the table, before it reads the table or what it wrote."""

    def __init__(self, reads_written: bool) -> None:
        super().__init__()
        self.reads_written = reads_written

    def rows(self) -> Any:
        doubled = nn.functional.dropout(self.sizes, 0.5, training=False) * 2
        other = torch.zeros(2, dtype=torch.long)
        other[self.sizes[0] - 2] = self.sizes[0]
        view = doubled[0].view(2)
        view.add_(other[:1])
        height = (doubled if self.reads_written else self.sizes)[0, 0].item()
        torch._check(height >= 0)
        return height


def test_only_memory_that_is_written_is_no_constant(tmp_path: Path) -> None:
    model, x = Writes(reads_written=False), torch.randn(6)
    loaded = saved(model, (x,), tmp_path / "writes.atl")
    assert torch.equal(loaded(x.to("atalla")).cpu(), model(x))
    with pytest.raises(UnsupportedOpsError, match="_local_scalar_dense"):
        saved(Writes(reads_written=True), (x,), tmp_path / "reads.atl")


class Evaluates(Counter):
    """Writes the table by way of an op that returns its input."""

    def rows(self) -> Any:
        nn.functional.dropout(self.sizes, 0.5, training=False).add_(0)
        height = self.sizes[0, 0].item()
        torch._check(height >= 0)
        return height


def test_ops_that_return_their_input_share_its_memory(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOpsError, match="_local_scalar_dense"):
        saved(Evaluates(), (torch.randn(6),), tmp_path / "evaluates.atl")


class Scaled(nn.Module):
    def __init__(self, write: bool, read: bool = True) -> None:
        super().__init__()
        self.write, self.read = write, read
        self.register_buffer("n", torch.tensor([2]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.n[0].item() if self.read else 1
        torch._check(factor < 100)
        y = x * factor
        if self.write:
            self.n.add_(1)
        return y


def test_buffers_that_are_written_later_or_elsewhere_are_no_constants(tmp_path: Path) -> None:
    """Also in a program without mutation, and in one whose other method writes."""
    x = (torch.ones(3),)
    functional = torch.export.export(Scaled(write=True), x).run_decompositions({})
    methods = {"get": Scaled(write=False), "step": Scaled(write=True, read=False)}
    methods["step"].n = methods["get"].n
    exported = {name: torch.export.export(model, x) for name, model in methods.items()}
    save_loadable(functional, tmp_path / "state.atl", fallback="error")
    program, given = load_loadable(tmp_path / "state.atl"), x[0].to("atalla")
    for expected in (2, 3, 4):
        assert torch.equal(program(given).cpu(), expected * x[0])
    save_loadable(exported, tmp_path / "methods.atl", fallback="error")
    program = load_loadable(tmp_path / "methods.atl")
    for expected in (2, 3, 4):
        assert torch.equal(program["get"](given).cpu(), expected * x[0])
        program["step"](given)


class Asserts(nn.Module):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([3, 7]))
        self.most = most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._check(self.table.max().item() <= self.most)
        return x + 1


def test_assertions_about_constants(tmp_path: Path) -> None:
    x = torch.ones(2)
    assert torch.equal(saved(Asserts(7), (x,), tmp_path / "holds.atl")(x.to("atalla")).cpu(), x + 1)
    program = torch.export.export(Asserts(7), (x,))
    program.state_dict["table"][0] = 9
    with pytest.raises(ExportError, match="does not hold for its constants.*u0 <= 7"):
        save_loadable(program, tmp_path / "fails.atl")


class Rows(nn.Module):
    """Takes the rows of a mask, as models of images do to leave out padding."""

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("ids", mask.long() - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = self.ids == self.ids.max(1, keepdim=True).values.clamp(0, 0)
        numbers = self.ids[0].repeat_interleave(self.ids[0] + 2)
        return torch.cat([x[mask] * 2, x[:, mask[0]].sum(1), numbers[:, None] * x[0, :1]])


@pytest.mark.parametrize("mask", ([[1, 0, 1], [0, 0, 1]], [[1, 1, 1], [1, 1, 1]]), ids=("some", "all"))
def test_masks_of_constants(mask: list[list[int]], tmp_path: Path) -> None:
    model, x = Rows(torch.tensor(mask)), torch.randn(2, 3, 4)
    loaded = saved(model, (x,), tmp_path / "rows.atl")
    for y in (x, -3 * x):
        assert torch.equal(loaded(y.to("atalla")).cpu(), model(y))
