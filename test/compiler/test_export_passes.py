# SPDX-License-Identifier: BSD-3-Clause
"""Graph passes: what they remove, what they must leave, and what they may not change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from export_suite import Fn
from torch import nn

from torch_atalla.compiler.capture.capture import Captured, capture
from torch_atalla.compiler.lower.recorded import ACTIVATION_KEY
from torch_atalla.compiler.passes.graph import (
    fold_constants,
    fuse_epilogue,
    merge_common_subexpressions,
    narrow_masks,
    remove_dead_code,
    remove_identities,
    simplify_masks,
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


def test_a_tensor_without_values_is_no_constant() -> None:
    program = captured(lambda m, x: (torch.empty_like(x, dtype=torch.int64), torch.empty(3, dtype=torch.bool)), X)
    fold_constants(program)
    assert targets(program) == [aten.empty_permuted.default, aten.empty.memory_format]


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


HEADS = tuple(torch.randn(2, 4, 6, 8) for _ in range(3))
SEEN = torch.ones(6, 6, dtype=torch.bool)
ONE_HIDDEN = SEEN.index_put((torch.tensor(3), torch.tensor(0)), torch.tensor(False))
BEFORE = SEEN.tril()
ADDED = torch.zeros(6, 6).masked_fill(~BEFORE, -torch.inf)


def simplified(fn: Any, *args: torch.Tensor, exact: bool = True, **tensors: torch.Tensor) -> Captured:
    program = captured(fn, *args, **tensors)
    fold_constants(program)
    merge_common_subexpressions(program)
    simplify_masks(program, exact=exact)
    remove_dead_code(program)
    return program


def attentions(program: Captured) -> list[tuple[bool, bool]]:
    """Of each attention, whether it has a mask, and whether it is causal."""
    nodes = program.graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default)
    given = [dict(zip(("attn_mask", "dropout_p", "is_causal"), node.args[3:])) | node.kwargs for node in nodes]
    return [(item.get("attn_mask") is not None, item.get("is_causal", False)) for item in given]


def masked(mask: torch.Tensor, **options: Any) -> Any:
    return lambda m, q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, mask, **options)


@pytest.mark.parametrize(
    "mask",
    [SEEN, SEEN[:1], SEEN[None, None], SEEN.expand(2, 1, 6, 6), SEEN.expand(2, 4, 6, 6).clone(),
     torch.zeros(6, 6), torch.zeros(1, 1, 6, 6), -torch.zeros(2, 1, 1, 6)],
)  # fmt: skip
def test_mask_that_hides_nothing_goes(mask: torch.Tensor) -> None:
    program = simplified(masked(mask, scale=0.5), *HEADS)
    assert attentions(program) == [(False, False)] and program.constants == {}
    (node,) = [node for node in program.graph.nodes if node.op == "call_function"]
    assert node.kwargs["scale"] == 0.5 and node.meta["val"].shape == HEADS[0].shape


@pytest.mark.parametrize("mask", [ONE_HIDDEN, BEFORE, ADDED, torch.full((6, 6), 1e-40), torch.full((6, 6), torch.nan)])
def test_mask_that_changes_a_score_stays(mask: torch.Tensor) -> None:
    assert attentions(simplified(masked(mask), *HEADS)) == [(True, False)]


def test_mask_that_is_given_stays() -> None:
    """As an input, and as a buffer, which a caller may replace."""
    attention = nn.functional.scaled_dot_product_attention
    assert attentions(simplified(lambda m, q, k, v, mask: attention(q, k, v, mask), *HEADS, SEEN)) == [(True, False)]
    assert attentions(simplified(lambda m, q, k, v: attention(q, k, v, m.mask), *HEADS, mask=SEEN)) == [(True, False)]


@pytest.mark.parametrize("mask", [BEFORE, BEFORE[None, None], BEFORE.expand(2, 1, 6, 6), ADDED, ADDED.clamp(-3e38)])
def test_causal_mask_becomes_a_flag_where_results_may_differ(mask: torch.Tensor) -> None:
    assert attentions(simplified(masked(mask), *HEADS)) == [(True, False)]
    assert attentions(simplified(masked(mask), *HEADS, exact=False)) == [(False, True)]


@pytest.mark.parametrize("mask", [BEFORE & ONE_HIDDEN, BEFORE.mT, ADDED.mT, ADDED.clamp(-1e4), ADDED + 1])
def test_mask_that_is_almost_causal_stays(mask: torch.Tensor) -> None:
    assert attentions(simplified(masked(mask), *HEADS, exact=False)) == [(True, False)]


def test_causal_mask_of_fewer_queries_than_keys_stays() -> None:
    """The flag counts from the first key; a model with a cache counts from the last."""
    q, k, v = HEADS
    for mask in (SEEN[:4].tril(), SEEN[:4].tril(2)):
        assert attentions(simplified(masked(mask), q[:, :, :4], k, v, exact=False)) == [(True, False)]


def test_groups_of_heads_and_dropout_are_kept() -> None:
    q, k, v = HEADS
    program = simplified(masked(SEEN, enable_gqa=True, dropout_p=0.5), q, k[:, :2], v[:, :2])
    (node,) = program.graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default)
    assert node.args[3:] == (None, 0.5, False) and node.kwargs == {"enable_gqa": True}


def test_mask_that_others_read_is_kept_for_them() -> None:
    def fn(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(6, 6)
        y = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        return torch.linalg.matmul(mask, nn.functional.scaled_dot_product_attention(y, k, v, mask))

    program = simplified(fn, *HEADS)
    assert attentions(program) == [(False, False)] * 2
    assert [tuple(constant.tensor.shape) for constant in program.constants.values()] == [(6, 6)]


def test_mask_of_dynamic_size_that_hides_nothing_goes() -> None:
    def fn(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        seen = torch.arange(6) >= 0
        return nn.functional.scaled_dot_product_attention(q, k, v, seen.expand(q.shape[0], 1, 6, 6))

    batch = torch.export.Dim("batch", min=2, max=9)
    program = capture(torch.export.export(Fn(fn), HEADS, dynamic_shapes={"args": ({0: batch},) * 3}))
    narrow_masks(program)
    fold_constants(program)
    assert attentions(program) == [(True, False)]
    simplify_masks(program)
    assert attentions(program) == [(False, False)]


def mask_sizes(fn: Any, *args: torch.Tensor) -> tuple[int, ...]:
    program = captured(fn, *args)
    narrow_masks(program)
    (node,) = program.graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default)
    assert node.meta["val"].shape == HEADS[0].shape
    return tuple(node.args[3].meta["val"].shape)


def test_mask_is_computed_before_it_is_repeated() -> None:
    def repeated(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, seen.expand(2, 4, 6, 6))

    def added(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        mask = torch.where(BEFORE.expand(2, 1, 6, 6), bias.mT, -torch.inf).contiguous()
        return nn.functional.scaled_dot_product_attention(q, k, v, mask)

    assert mask_sizes(repeated, *HEADS, BEFORE) == (6, 6)
    assert mask_sizes(repeated, *HEADS, torch.rand(2, 1, 1, 6) > 0.5) == (2, 1, 1, 6)
    assert mask_sizes(repeated, *HEADS, torch.rand(6, 6)) == (6, 6)
    assert mask_sizes(added, *HEADS, torch.rand(1, 4, 6, 6)) == (1, 4, 6, 6)
    assert mask_sizes(added, *HEADS, torch.rand(2, 4, 6, 6)) == (2, 4, 6, 6)
