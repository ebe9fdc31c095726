# SPDX-License-Identifier: BSD-3-Clause
"""The example calls of every op with a lowering, as programs: eager mode's bits, and near the CPU's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from example_calls import SHAPE_ONLY, core_overloads
from export_suite import Fn
from op_programs import NO_PROGRAM, NOT_LOWERED, Calls, calls_of, programs
from opinfo_suite import OPS, samples
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla.testing.opinfo import to_device

# Results that mean something; the CPU leaves others as they are.
COUNTS = {"_embedding_bag": 1, "_embedding_bag_forward_only": 1}
TOLERANCES = {torch.bfloat16: 5e-2, torch.float16: 2e-3}
ROUNDED_BY_CPU = {"addbmm"}  # after each product that it adds


def results(name: str, calls: list[Any]) -> list[Any]:
    return [leaf for call in calls for leaf in pytree.tree_leaves(call)[: COUNTS.get(name)]]


@pytest.mark.parametrize("name", sorted(programs() | (core_overloads() - set(NOT_LOWERED) - set(NO_PROGRAM))))
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
    assert len(programs()) >= 150
    assert set(NOT_LOWERED) <= core_overloads()


# Ops of one dtype whose meta functions take several: one for each family of rules.
ONE_DTYPE = (
    *("addmm", "mv", "nn.functional.linear", "nn.functional.nll_loss", "nn.functional.batch_norm"),
    *("native_layer_norm", "heaviside", "grid_sampler_3d", "index_add"),
)


@pytest.mark.parametrize("name", ONE_DTYPE)
def test_refuses_several_dtypes(name: str, tmp_path: Path) -> None:
    """A program refuses an argument in another floating-point dtype wherever eager mode does."""
    op, refused = OPS[name], 0
    sample = next(x for x in samples(op, torch.float32) if len(floating(as_leaves(x)[0])) > 1)
    leaves, spec = as_leaves(sample)
    for place in floating(leaves):
        given = [x.detach() if isinstance(x, torch.Tensor) else x for x in leaves]
        given[place] = given[place].half()

        def call(module: Any, *tensors: torch.Tensor, given: list[Any] = given) -> Any:
            left = iter(tensors)
            first, args, kwargs = spec.unflatten([next(left) if isinstance(x, torch.Tensor) else x for x in given])
            return op.op(first, *args, **kwargs)

        tensors = [x for x in given if isinstance(x, torch.Tensor)]
        try:
            call(None, *to_device(tensors, "atalla"))
        except RuntimeError:
            refused += 1
            with pytest.raises((torch_atalla.loadable.ExportError, RuntimeError)):
                torch_atalla.save_loadable(
                    Fn(call), tmp_path / "m.atl", args=tuple(tensors), fallback="error", golden=False
                )
    assert refused


def as_leaves(sample: Any) -> tuple[list[Any], Any]:
    return pytree.tree_flatten((sample.input, sample.args, sample.kwargs))


def floating(leaves: list[Any]) -> list[int]:
    return [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.is_floating_point()]
