# SPDX-License-Identifier: BSD-3-Clause
"""Graph passes: what they remove, what they must leave, and what they may not change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from export_suite import Fn
from torch import nn

from torch_atalla.compiler.capture.capture import Captured, capture
from torch_atalla.compiler.lower.matrix.gemm import ACTIVATION_KEY
from torch_atalla.compiler.passes.graph import (
    fold_constants,
    fuse_epilogue,
    merge_common_subexpressions,
    remove_dead_code,
    remove_identities,
)
from torch_atalla.loadable.errors import ExportError

aten = torch.ops.aten


def captured(fn: Any, *args: torch.Tensor, **tensors: torch.Tensor) -> Captured:
    return capture(Fn(fn, **tensors), args)


def targets(program: Captured) -> list[Any]:
    return [node.target for node in program.graph.nodes if node.op == "call_function"]


X = torch.randn(2, 3)


def test_copies_and_empty_casts_go() -> None:
    program = captured(lambda m, x: x.clone().detach().float().contiguous() + 1, X)
    remove_identities(program)
    assert targets(program) == [aten.add.Tensor]


def test_real_cast_stays() -> None:
    program = captured(lambda m, x: x.double(), X)
    remove_identities(program)
    assert targets(program) == [aten._to_copy.default]


def test_mask_arithmetic_folds() -> None:
    def fn(m: Any, x: torch.Tensor) -> torch.Tensor:
        i = torch.arange(3)
        mask = (i[None, :] <= i[:, None]) & torch.ones(3, 3, dtype=torch.bool)
        return torch.where(mask, x @ x.t(), 0.0)

    program = captured(fn, torch.randn(3, 3))
    fold_constants(program)
    remove_dead_code(program)
    assert set(targets(program)) <= {aten.permute.default, aten.mm.default, aten.where.self}
    (mask,) = [c.tensor for c in program.constants.values() if c.tensor.dtype == torch.bool]
    assert torch.equal(mask, torch.ones(3, 3, dtype=torch.bool).tril())


def test_inexact_floats_fold_only_on_request() -> None:
    def fn(m: Any, x: torch.Tensor) -> torch.Tensor:
        return x + m.w.sin()

    program = captured(fn, X, w=torch.randn(3))
    fold_constants(program)
    assert aten.sin.default in targets(program)
    program = captured(fn, X, w=torch.randn(3))
    fold_constants(program, exact_only=False)
    remove_dead_code(program)
    assert targets(program) == [aten.add.Tensor]


def test_views_of_weights_are_not_materialised() -> None:
    program = captured(lambda m, x: x @ m.w.t(), X, w=torch.randn(4, 3))
    fold_constants(program)
    remove_dead_code(program)
    assert targets(program) == [aten.permute.default, aten.mm.default]
    assert [constant.fqn for constant in program.constants.values()] == ["w"]


def test_random_numbers_are_not_folded_or_merged() -> None:
    program = captured(lambda m, x: x + torch.rand(3) + torch.rand(3), X)
    fold_constants(program, exact_only=False)
    merge_common_subexpressions(program)
    assert targets(program).count(aten.rand.default) == 2


def test_equal_expressions_are_merged_once() -> None:
    program = captured(lambda m, x: x.exp() * x.exp() + (x + 1) - (x + 1.0), X)
    merge_common_subexpressions(program)
    assert targets(program).count(aten.exp.default) == 1
    # 1 and 1.0 are different scalars: for an integer tensor they would give different dtypes.
    assert targets(program).count(aten.add.Tensor) == 3


def test_dead_code_goes_and_inputs_stay() -> None:
    def fn(m: Any, x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        return x + 1

    program = captured(fn, X, X, w=torch.randn(3))
    remove_dead_code(program)
    assert [leaf.name for leaf in program.inputs] == [node.name for node in program.graph.find_nodes(op="placeholder")]
    assert program.constants == {}


@pytest.mark.parametrize(
    ("activation", "name"),
    [(torch.relu, "relu"), (nn.functional.gelu, "gelu_erf"), (nn.functional.silu, "silu"),
     (lambda x: nn.functional.gelu(x, approximate="tanh"), "gelu_tanh")],
)  # fmt: skip
def test_epilogue(activation: Any, name: str) -> None:
    program = captured(lambda m, x: activation(x @ m.w), X, w=torch.randn(3, 4))
    fuse_epilogue(program)
    (product,) = [node for node in program.graph.nodes if node.target == aten.mm.default]
    assert product.meta[ACTIVATION_KEY] == name and len(targets(program)) == 1


def test_epilogue_leaves_a_product_that_is_read_twice() -> None:
    program = captured(lambda m, x: (y := x @ m.w).relu() + y, X, w=torch.randn(3, 4))
    assert fuse_epilogue(program).nodes == ()


def test_buffers_may_be_written_and_inputs_not() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    captured = capture(Counts(), (X,))
    assert captured.updates == ["count"] and [state.fqn for state in captured.states.values()] == ["count"]
    with pytest.raises(ExportError, match="user input mutation"):
        capture(Fn(lambda m, x: x.add_(1)), (X,))


def test_symbolic_sizes_are_bound_to_inputs() -> None:
    batch = torch.export.Dim("batch", min=2, max=9)
    ep = torch.export.export(Fn(lambda m, x: x + 1), (X,), dynamic_shapes={"args": ({0: batch},)})
    (symbol,) = capture(ep).symbols.symbols
    assert (symbol.input, symbol.dim, symbol.min, symbol.max, symbol.value) == (0, 0, 2, 9, 9) and symbol.bounded


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(ExportError, match="expected an ExportedProgram or a Module, got int"):
        capture(3)  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="needs example inputs"):
        capture(nn.ReLU())
