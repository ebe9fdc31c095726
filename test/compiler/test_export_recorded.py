# SPDX-License-Identifier: BSD-3-Clause
"""Ops without a lowering rule: what eager mode launches for them is recorded, and gives eager mode's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from op_cases import Fn
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla.compiler import UnsupportedOpsError, compile_program
from torch_atalla.compiler.lower import RULES
from torch_atalla.compiler.program.ir import Launch

aten = torch.ops.aten
X = torch.randn(4, 5)
MATRIX = X @ X.t() + 4 * torch.eye(4)

RECORDED = {
    "stable sort": (lambda x: torch.sort(x, stable=True, descending=True), (X,)),
    "mode": (lambda x: torch.mode(torch.floor(x), 0), (X,)),
    "median": (lambda x: torch.median(x, 1, keepdim=True), (X,)),
    "median of all": (lambda x: torch.median(x) + x.t(), (X,)),
    "complex product": (lambda x: x @ x.t() * 2, (torch.randn(3, 4, dtype=torch.complex64),)),
    "factors": (lambda x: torch.linalg.qr(x), (X,)),
    "inverse": (lambda x: torch.linalg.inv_ex(x).inverse * 2, (MATRIX,)),
    "positions": (lambda x, y: torch.searchsorted(x.sort(1)[0], y, right=True), (X, X[:, :2] + 1)),
    "views": (lambda x: torch.sort(x[1:, ::2].t(), dim=0, stable=True)[0] + 1, (X,)),
    "gradient": (lambda x, g: aten.grid_sampler_2d_backward(x[:, :1], x, g, 0, 0, False, [True, True])[1],
                 (torch.randn(1, 1, 3, 4), torch.rand(1, 3, 4, 2))),
    "nothing": (lambda x: torch.sort(x[:0], stable=True)[0], (X,)),
}  # fmt: skip


def check(module: nn.Module, args: tuple, path: Path, **options: Any) -> None:
    for optimize in ("none", "exact", "fast"):
        torch_atalla.save_loadable(module, path, args=args, fallback="error", optimize=optimize, **options)
        program = torch_atalla.load_loadable(path, device="atalla")
        given = [arg.to("atalla") for arg in args]
        with torch_atalla.fallback.mode("error"), torch.no_grad():
            eager = pytree.tree_leaves(module(*given))
        for mine, chip in zip(pytree.tree_leaves(program(*given)), eager, strict=True):
            torch.testing.assert_close(mine.cpu(), chip.cpu(), rtol=0, atol=0)


@pytest.mark.parametrize("name", RECORDED)
def test_eager_modes_bits(name: str, tmp_path: Path) -> None:
    fn, args = RECORDED[name]
    check(Fn(fn), args, tmp_path / "m.atl")


WITH_RULE = {
    "aten.grid_sampler_2d.default": (
        lambda x, g: nn.functional.grid_sample(x, g, align_corners=False),
        (torch.randn(1, 2, 5, 6), torch.rand(1, 3, 4, 2)),
    ),
    "aten._cdist_forward.default": (lambda x: torch.cdist(x, x[:3].relu(), p=1.5), (X,)),
    "aten.cummax.default": (lambda x: torch.cummax(x, 1), (X,)),
    "aten.topk.default": (lambda x: torch.topk(x, 2), (X,)),
    "aten.roll.default": (lambda x: x.roll((1, 2), (0, 1)), (X,)),
}


@pytest.mark.parametrize("name", WITH_RULE)
def test_recording_is_the_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, args = WITH_RULE[name]

    def kernels() -> list[str]:
        instructions = compile_program(Fn(fn), args, fallback="error", optimize="none").program.instructions
        return [inst.kernel for inst in instructions if isinstance(inst, Launch)]

    by_rule = kernels()

    def declines(*_: Any, **__: Any) -> Any:
        raise torch_atalla.loadable.errors.NotNativeError("declined")

    monkeypatch.setitem(RULES, name, type(RULES[name])(declines, RULES[name].dtypes, RULES[name].operands))
    assert kernels() == by_rule


def test_reasons() -> None:
    """What a program cannot hold is refused, with the reason."""

    def ops(x: torch.Tensor) -> tuple:
        return torch.linalg.eigvals(x), torch.rand(3), torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 15)

    with pytest.raises(UnsupportedOpsError) as caught:
        compile_program(Fn(ops), (MATRIX,), fallback="error")
    assert [op.reason for op in caught.value.ops] == [
        "a copy between host and device, which a program cannot hold",
        "no native kernel",
    ]


def test_dynamic_sizes_need_a_rule() -> None:
    module = Fn(lambda x: torch.sort(x, stable=True)[0])
    program = torch.export.export(module, (X,), dynamic_shapes=(({0: Dim("n", min=2, max=9)},),))
    with pytest.raises(UnsupportedOpsError, match="no rule for dynamic sizes"):
        compile_program(program, fallback="error")


def test_generators_are_left_alone() -> None:
    torch.atalla.manual_seed(3)
    before = torch.atalla.get_rng_state()
    compile_program(Fn(lambda x: torch.nn.functional.dropout(x, 0.5)), (X,))
    assert torch.equal(torch.atalla.get_rng_state(), before)
