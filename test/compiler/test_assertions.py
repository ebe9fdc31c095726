# SPDX-License-Identifier: BSD-3-Clause
"""Assertions about data run on the chip: a program stops where one does not hold."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torch_atalla import load_loadable, save_loadable

Check = Callable[[torch.Tensor], Any]


class Checked(nn.Module):
    def __init__(self, check: Check) -> None:
        super().__init__()
        self.check = check

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.check(x)
        return x + 1


def loaded(check: Check, x: torch.Tensor, path: Path) -> Any:
    save_loadable(torch.export.export(Checked(check), (x,)), path, fallback="error")
    return load_loadable(path)


CHECKS: dict[str, Check] = {
    "number": lambda x: torch._check(x.max().item() <= 6),
    "number at the left": lambda x: torch._check(operator.ge(6, x.max().item())),
    "sum": lambda x: torch._check(10 - x.max().item() * 1 + x.min().item() >= 5 - (1 - x.min().item())),
    "two numbers": lambda x: torch._check(x.max().item() < x.new_full((), 7).item()),
    "tensor": lambda x: torch._check_tensor_all(x <= 6),
    "message": lambda x: torch._assert_async((x <= 6).all(), "too large"),
}


def test_assertion_about_a_float(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0, 6.0])
    program = loaded(lambda x: torch._check(x.max().item() * 2 <= 12.5), x, tmp_path / "checked.atl")
    assert torch.equal(program((x + 0.25).to("atalla")).cpu(), x + 1.25)
    with pytest.raises((RuntimeError, IndexError), match="_assert_async"):
        program((x + 0.26).to("atalla")).cpu()


@pytest.mark.parametrize("name", CHECKS)
def test_assertion(name: str, tmp_path: Path) -> None:
    x = torch.tensor([1, 2, 6])
    program = loaded(CHECKS[name], x, tmp_path / "checked.atl")
    for right in (x, x - 3):
        assert torch.equal(program(right.to("atalla")).cpu(), right + 1)
    with pytest.raises(
        (RuntimeError, IndexError), match="index 1 at position.*_assert_async|_assert_async.*index 1 at position"
    ):
        program((x + 1).to("atalla")).cpu()
    assert torch.equal(program(x.to("atalla")).cpu(), x + 1)  # the device still works
