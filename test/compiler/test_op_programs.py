# SPDX-License-Identifier: BSD-3-Clause
"""The example calls of every op with a lowering, as programs: eager mode's bits, and near the CPU's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from example_calls import SHAPE_ONLY, Call, core_overloads, example_calls, overload
from torch import nn
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla.compiler.capture.decompositions import decomposition_table
from torch_atalla.compiler.lower import RULES, is_pointwise
from torch_atalla.compiler.lower.shape.views import is_view
from torch_atalla.compiler.program.support import op_key, support_table
from torch_atalla.driver.dtypes import CODES
from torch_atalla.testing.opinfo import to_device

_RANDOM = "random numbers: a file's results are the same at every run"
_BACKWARD = "the gradient of an op; loadables hold forward programs"
_NUMBER = "gives a number; the driver computes sizes"
NOT_LOWERED = {
    "_adaptive_avg_pool2d_backward": _BACKWARD,
    "_local_scalar_dense": "gives a number that depends on data",
    "_native_batch_norm_legit": "writes to its arguments; programs have _native_batch_norm_legit_functional",
    "avg_pool2d_backward": _BACKWARD,
    "convolution_backward": _BACKWARD,
    "max_pool2d_with_indices_backward": _BACKWARD,
    "native_dropout": _RANDOM,
    "nonzero": "a size that depends on data",
    "rand": _RANDOM,
    "randn": _RANDOM,
    "randperm": _RANDOM,
    "resize_": "changes its argument's sizes; functional programs have none",
    "sym_numel": _NUMBER,
    "sym_storage_offset": _NUMBER,
}
NO_PROGRAM = {
    "atan2.out": "writes to an input",
}
_COMPOSITE = "upstream takes it apart before a program is made"
WITHOUT_CALL = {
    "_grouped_mm": "the CPU has none in these dtypes",
    "_neg_view": "a flag of tensors, which programs do not have",
    "log_sigmoid_forward": "has a buffer for the gradient, which is empty on the chip",
    "resolve_conj": _COMPOSITE,
    "resolve_neg": _COMPOSITE,
}
# Of the calls of these, those that are programs.
CHOSEN: dict[str, Any] = {
    "_embedding_bag_forward_only": lambda call: call.tensors()[0].dtype == torch.float32,
    "convolution": lambda call: not call.args[6] and call.args[0].dtype != torch.int64,  # 6: transposed
    "index_put": lambda call: all(index is None or index.dtype != torch.bool for index in call.args[1]),
    "repeat_interleave.Tensor": lambda call: "output_size" in call.kwargs,
}
# Results that mean something; the CPU leaves others as they are.
COUNTS = {"_embedding_bag": 1, "_embedding_bag_forward_only": 1}
TOLERANCES = {torch.bfloat16: 5e-2, torch.float16: 2e-3}
ROUNDED_BY_CPU = {"addbmm"}  # after each product that it adds


def lowered(name: str) -> bool:
    """By a rule, as a view, as a pointwise op, or after it was taken apart."""
    support, target = support_table(), overload(name)
    entry = support.get(op_key(target))
    if op_key(target) in RULES or is_view(target) or target in decomposition_table(support):
        return True
    return entry is not None and is_pointwise(entry)


def with_rule() -> set[str]:
    names = (key.removeprefix("aten.").removesuffix(".default") for key in RULES if key.startswith("aten."))
    return {name for name in names if not overload(name)._schema.is_mutable} - set(WITHOUT_CALL)


def calls_of(name: str) -> list[Call]:
    """The example calls in dtypes that files have."""
    taken = (call for call in example_calls()[name] if all(t.dtype in CODES for t in call.tensors()))
    return list(filter(CHOSEN.get(name), taken)) if name in CHOSEN else list(taken)


class Calls(nn.Module):
    """An op on the tensors of its example calls; the other arguments are part of the program."""

    def __init__(self, name: str, calls: list[Call]):
        super().__init__()
        self.op = overload(name)
        self.leaves, self.spec = pytree.tree_flatten([tuple(call) for call in calls])

    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        return [self.op(*args, **kwargs) for args, kwargs in pytree.tree_unflatten(leaves, self.spec)]


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
