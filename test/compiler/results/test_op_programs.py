# SPDX-License-Identifier: BSD-3-Clause
"""The example calls of every op with a lowering, as programs: eager mode's bits, and near the CPU's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from example_calls import SHAPE_ONLY, core_overloads
from op_programs import NO_PROGRAM, NOT_LOWERED, Calls, calls_of, lowered, with_rule
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla.testing.opinfo import to_device

# Results that mean something; the CPU leaves others as they are.
COUNTS = {"_embedding_bag": 1, "_embedding_bag_forward_only": 1}
TOLERANCES = {torch.bfloat16: 5e-2, torch.float16: 2e-3}
ROUNDED_BY_CPU = {"addbmm"}  # after each product that it adds


def results(name: str, calls: list[Any]) -> list[Any]:
    return [leaf for call in calls for leaf in pytree.tree_leaves(call)[: COUNTS.get(name)]]


@pytest.mark.parametrize("name", sorted(with_rule() | core_overloads() - set(NOT_LOWERED) - set(NO_PROGRAM)))
def test_program(name: str, tmp_path: Path) -> None:
    calls = calls_of(name)
    assert calls, "no example call is a program"
    module = Calls(name, calls)
    args = module.tensors()
    torch_atalla.save_loadable(module, tmp_path / "m.atl", args=args, fallback="error", golden=False)
    program = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
    found = results(name, program(*to_device(args, "atalla")))
    with torch.no_grad():
        eager, expected = results(name, module(*to_device(args, "atalla"))), results(name, module(*args))
    for mine, chip, cpu in zip(found, eager, expected, strict=True):
        if not isinstance(mine, torch.Tensor):
            assert mine == chip == cpu
        elif name in SHAPE_ONLY:
            assert (mine.shape, mine.dtype) == (cpu.shape, cpu.dtype)
        else:
            torch.testing.assert_close(mine.cpu(), chip.cpu(), rtol=0, atol=0, equal_nan=True)
            near = TOLERANCES.get(cpu.dtype, 1e-5) * (10 if name in ROUNDED_BY_CPU else 1)
            torch.testing.assert_close(mine.cpu(), cpu, rtol=near, atol=near, equal_nan=True)


def test_ops_without_a_lowering() -> None:
    assert len(with_rule()) >= 150
    assert {name for name in core_overloads() if not lowered(name)} == set(NOT_LOWERED)
