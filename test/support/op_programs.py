# SPDX-License-Identifier: BSD-3-Clause
"""Ops with a lowering, and their example calls as modules."""

from __future__ import annotations

from typing import Any

import torch
from example_calls import Call, example_calls, overload
from torch import nn
from torch.utils import _pytree as pytree

from torch_atalla import ops
from torch_atalla.compiler.lower import RULES
from torch_atalla.driver.dtypes import CODES

_RANDOM = "random numbers, which are others than those of a call in eager mode"
_NUMBER = "gives a number; the driver computes sizes"
_WRITES = "writes to its arguments"
_ON_HOST = "eager mode reads elements on the host"
_SIZE_OF_DATA = "a size that depends on data"
NOT_LOWERED = {
    "_local_scalar_dense": "gives a number that depends on data",
    "_native_batch_norm_legit": f"{_WRITES}; programs have _native_batch_norm_legit_functional",
    "native_dropout": _RANDOM,
    "nonzero": _SIZE_OF_DATA,
    "rand": _RANDOM,
    "randn": _RANDOM,
    "randperm": _RANDOM,
    "resize_": "changes its argument's sizes; functional programs have none",
    "sym_numel": _NUMBER,
    "sym_storage_offset": _NUMBER,
}
NO_PROGRAM = {
    "_histogramdd_bin_edges": _ON_HOST,
    "_histogramdd_from_bin_cts": _ON_HOST,
    "_linalg_eigh": _ON_HOST,
    "_linalg_svd": _ON_HOST,
    "_unique": _SIZE_OF_DATA,
    "atan2.out": _WRITES,
    "bincount": _SIZE_OF_DATA,
    "cholesky": _ON_HOST,
    "cholesky_inverse": _ON_HOST,
    "histogram.bin_ct": _ON_HOST,
    "linalg_eig": _ON_HOST,
    "linalg_lstsq": _SIZE_OF_DATA,
    "multinomial": _RANDOM,
    "native_batch_norm": _WRITES,
    "normal.Tensor_Tensor": _RANDOM,
    "normal.Tensor_float": _RANDOM,
    "segment_reduce": _ON_HOST,
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
    "linalg_matrix_exp": lambda call: call.tensors()[0].dtype != torch.bfloat16,  # of which the CPU makes NaNs
    "repeat_interleave.Tensor": lambda call: "output_size" in call.kwargs,
}


def programs() -> set[str]:
    """Ops that are more than a formula, whose example calls are programs."""
    adapted = {key for key, entry in ops.support().items() if entry["adaptor"]}
    names = (
        key.removeprefix("aten.").removesuffix(".default") for key in adapted | set(RULES) if key.startswith("aten.")
    )
    known = {name for name in names if name in example_calls() and "backward" not in name}
    return (
        {name for name in known if not overload(name)._schema.is_mutable and calls_of(name)}
        - set(WITHOUT_CALL)
        - set(NO_PROGRAM)
    )


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
