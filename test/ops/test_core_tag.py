# SPDX-License-Identifier: BSD-3-Clause
"""Every op that native_functions.yaml tags `core` (the set that compilers decompose to) runs natively and gives the
CPU's values. Which ops carry the tag is read from the YAML; an op without an example call fails."""

from __future__ import annotations

import pytest
import torch
from example_calls import SHAPE_ONLY, core_overloads, example_calls, overload
from torch.utils._pytree import tree_leaves

import torch_atalla
from torch_atalla.testing.opinfo import to_device

TOLERANCES = {torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2}, torch.float16: {"rtol": 2e-3, "atol": 2e-3}}
COUNTS = {"_embedding_bag": 1}  # results that mean something; the CPU leaves others as they are
# Compared with float32: on a CPU without AVX-512, PyTorch rounds the sums to bfloat16 before it adds the bias.
WIDENED = {"convolution"}


@pytest.mark.parametrize("name", sorted(core_overloads()))
def test_runs_natively(name: str) -> None:
    for call in example_calls()[name]:
        args, kwargs = to_device(tuple(call), "cpu")
        mine, options = to_device(tuple(call), "atalla")
        with torch_atalla.fallback.mode("error"):
            actual = tree_leaves(overload(name)(*mine, **options))
        if name in WIDENED:
            args = [x.float() if isinstance(x, torch.Tensor) and x.dtype is torch.bfloat16 else x for x in args]
        expected = tree_leaves(overload(name)(*args, **kwargs))
        if name in WIDENED:
            expected = [e.to(a.dtype) for e, a in zip(expected, actual, strict=True)]
        assert len(actual) == len(expected)
        for a, e in list(zip(actual, expected))[: COUNTS.get(name)]:
            if not isinstance(e, torch.Tensor):
                assert a == e
                continue
            assert (a.device.type, a.shape, a.dtype) == ("atalla", e.shape, e.dtype)
            if name not in SHAPE_ONLY:
                tolerance = TOLERANCES.get(e.dtype, {"rtol": 1e-5, "atol": 1e-5})
                torch.testing.assert_close(a.cpu(), e, equal_nan=True, **tolerance)


def test_there_are_core_ops() -> None:
    assert len(core_overloads()) >= 193
