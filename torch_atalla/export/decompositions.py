# SPDX-License-Identifier: BSD-3-Clause
"""Which ops are taken apart before lowering, and which stay whole.

The default table of torch.export is the base. An op stays whole when one kernel does its work: taking it apart would
cost launches, and would no longer give the bits of eager mode, which launches that kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

aten = torch.ops.aten

# Composite for upstream, one launch (or one family of launches) for the chip.
KEPT_WHOLE = (
    aten.linear.default,
    aten.layer_norm.default,
    aten.scaled_dot_product_attention.default,
    aten.baddbmm.default,
    aten.silu.default,
    aten.mish.default,
    aten.logsumexp.default,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
)


def _vector_norm(
    self: torch.Tensor,
    ord: float = 2,  # noqa: A002 (upstream's name)
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    x = self if dtype is None else self.to(dtype)
    dims = list(range(x.ndim)) if not dim else dim
    if x.is_complex() or ord not in (1, 2, float("inf"), float("-inf")):
        return NotImplemented
    if ord == 2:
        return (x * x).sum(dims, keepdim).sqrt()
    if ord == 1:
        return x.abs().sum(dims, keepdim)
    return x.abs().amax(dims, keepdim) if ord > 0 else x.abs().amin(dims, keepdim)


# Ours, where upstream has none or one that leads to ops without a kernel.
ADDED: dict[torch._ops.OpOverload, Callable] = {aten.linalg_vector_norm.default: _vector_norm}


def decomposition_table() -> dict[torch._ops.OperatorBase, Callable]:
    """The table for ExportedProgram.run_decompositions."""
    table = dict(torch.export.default_decompositions().items())
    for op in KEPT_WHOLE:
        table.pop(op, None)
    table.update(ADDED)
    return table
