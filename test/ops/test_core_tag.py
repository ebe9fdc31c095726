# SPDX-License-Identifier: BSD-3-Clause
"""Every op that native_functions.yaml tags `core` (the set that compilers decompose to) runs natively and gives the
CPU's values: those that are programs in test_op_programs.py, the others here. An op without an example call fails."""

from __future__ import annotations

import pytest
import torch
from example_calls import SHAPE_ONLY, core_overloads, example_calls, overload
from op_programs import NO_PROGRAM, NOT_LOWERED
from torch.utils._pytree import tree_leaves

import torch_atalla
from torch_atalla.testing.opinfo import to_device

TOLERANCES = {torch.bfloat16: 5e-2, torch.float16: 2e-3}


@pytest.mark.parametrize("name", sorted(core_overloads() & (NOT_LOWERED.keys() | NO_PROGRAM.keys())))
def test_runs_natively(name: str) -> None:
    for call in example_calls()[name]:
        args, kwargs = to_device(tuple(call), "cpu")
        mine, options = to_device(tuple(call), "atalla")
        with torch_atalla.fallback.mode("error"):
            actual = tree_leaves(overload(name)(*mine, **options))
        for a, e in zip(actual, tree_leaves(overload(name)(*args, **kwargs)), strict=True):
            if not isinstance(e, torch.Tensor):
                assert a == e
                continue
            assert (a.device.type, a.shape, a.dtype) == ("atalla", e.shape, e.dtype)
            if name not in SHAPE_ONLY:
                tolerance = TOLERANCES.get(e.dtype, 1e-5)
                torch.testing.assert_close(a.cpu(), e, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_there_are_core_ops() -> None:
    assert len(core_overloads()) >= 193
