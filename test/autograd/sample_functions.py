# SPDX-License-Identifier: BSD-3-Clause
"""An op of op_db as a function of the tensors of one sample, for transforms and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from torch_atalla.testing import sample_on


def as_function(
    op: Any, sample: Any, device: str, wanted: Callable[[torch.Tensor], bool], variant: Callable[..., Any] | None = None
) -> tuple[Any, list, list]:
    """Return a function of the sample's tensors that are `wanted`, those tensors, and their places among the leaves.

    The function calls `variant`, by default the op itself.
    """
    inputs, args, kwargs = sample_on(op, sample, device)
    leaves, spec = tree_flatten((inputs, args, kwargs))
    places = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor) and wanted(x)]

    def f(*tensors: torch.Tensor) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        inputs, args, kwargs = tree_unflatten(given, spec)
        result = (variant or op)(inputs, *args, **kwargs)
        if sample.output_process_fn_grad is not None:
            result = sample.output_process_fn_grad(result)
        return tuple(x for x in tree_leaves(result) if isinstance(x, torch.Tensor))

    return f, [leaves[place].detach() for place in places], places


def is_differentiable(x: torch.Tensor) -> bool:
    return x.requires_grad and (x.is_floating_point() or x.is_complex())
