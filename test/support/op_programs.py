# SPDX-License-Identifier: BSD-3-Clause
"""Ops with a lowering, and their example calls as modules."""

from __future__ import annotations

from typing import Any

import torch
from example_calls import Call, example_calls, overload
from torch import nn
from torch.utils import _pytree as pytree

from torch_atalla.compiler.capture.decompositions import decomposition_table
from torch_atalla.compiler.lower import RULES, is_pointwise
from torch_atalla.compiler.lower.shape.views import is_view
from torch_atalla.compiler.program.support import op_key, support_table
from torch_atalla.driver.dtypes import CODES

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
    "_assert_async": "has no result (test_assertions.py)",
    "_assert_async.msg": "has no result (test_assertions.py)",
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
