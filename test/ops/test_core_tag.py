# SPDX-License-Identifier: BSD-3-Clause
"""Every op that native_functions.yaml tags `core` (the set that compilers decompose to) runs natively and gives the
CPU's values. Which ops carry the tag is read from the YAML; an op without a case fails."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from core_cases import CASES, SHAPE_ONLY, op, tagged
from torch.utils._pytree import tree_leaves

import torch_atalla
from torch_atalla.testing.opinfo import to_device

# Overloads without a native path, with the reason. The list may only shrink: an op that runs fails until its row goes.
MISSING: dict[str, str] = {}


def parameters() -> list[Any]:
    marks = {name: pytest.mark.xfail(reason=reason, strict=True) for name, reason in MISSING.items()}
    return [pytest.param(name, marks=marks.get(name, ())) for name in sorted(CASES)]


@pytest.mark.parametrize("name", parameters())
def test_runs_natively(name: str) -> None:
    args, kwargs = to_device(CASES[name], "cpu")
    mine, options = to_device(CASES[name], "atalla")
    with torch_atalla.fallback.mode("error"):
        actual = tree_leaves(op(name)(*mine, **options))
    expected = tree_leaves(op(name)(*args, **kwargs))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        assert (a.device.type, a.shape, a.dtype) == ("atalla", e.shape, e.dtype)
        if name not in SHAPE_ONLY and not (name == "_embedding_bag" and e.dtype == torch.int64):
            torch.testing.assert_close(a.cpu(), e, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_every_core_op_has_a_case() -> None:
    assert tagged() == set(CASES)
    assert len(tagged()) >= 193


def test_missing_ops_are_core_ops() -> None:
    assert set(MISSING) <= set(CASES)
