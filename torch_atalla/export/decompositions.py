# SPDX-License-Identifier: BSD-3-Clause
"""Which ops are taken apart before lowering, and which stay whole.

The default table of torch.export is the base. An op stays whole when one kernel does its work: taking it apart would
cost launches, and would no longer give the bits of eager mode, which launches that kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf

import torch
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .lower import RULES, is_pointwise
from .norm_gradients import group_norm_backward, layer_norm_backward
from .support import SupportTable, op_key, support_table

aten = torch.ops.aten

# Not in the list of native ops, since eager mode reaches their parts through upstream's composites; launched as one.
KEPT_WHOLE = (
    aten.linear.default,
    aten.layer_norm.default,
    aten.masked_fill.Scalar,
    aten.masked_fill.Tensor,
    aten.mv.default,
    aten.linspace.default,
    aten.upsample_linear1d.vec,
    aten.upsample_trilinear3d.vec,
    aten.upsample_bicubic2d.vec,
    aten._upsample_bilinear2d_aa.vec,
    aten._upsample_bicubic2d_aa.vec,
    aten.upsample_nearest1d.vec,
    aten.upsample_nearest3d.vec,
    aten._upsample_nearest_exact1d.vec,
    aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.vec,
)


def _vector_norm(
    self: torch.Tensor,
    ord: float = 2,  # noqa: A002 (upstream's name)
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Half-precision inputs are widened first, so that powers and sums are rounded once."""
    x = self if dtype is None else self.to(dtype)
    if x.is_complex() or (ord in (1, 2) and x.numel() > 0):
        return NotImplemented  # one kernel's work
    result_dtype = x.dtype
    x = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    dims = list(range(x.ndim)) if not dim else dim
    if x.numel() == 0 and 0 <= ord < inf:
        result = x.sum(dims, keepdim)
    elif ord == 2:
        result = (x * x).sum(dims, keepdim).sqrt()
    elif ord == 1:
        result = x.abs().sum(dims, keepdim)
    elif ord == 0:
        result = (x != 0).sum(dims, keepdim, dtype=x.dtype)
    elif abs(ord) == inf:
        result = x.abs().amax(dims, keepdim) if ord > 0 else x.abs().amin(dims, keepdim)
    else:
        result = x.abs().pow(ord).sum(dims, keepdim).pow(1 / ord)
    return result.to(result_dtype)


def _isinf(self: torch.Tensor) -> torch.Tensor:
    if self.is_complex():
        return torch.isinf(self.real) | torch.isinf(self.imag)
    if self.is_floating_point():
        return self.abs() == inf
    return torch.zeros_like(self, dtype=torch.bool)


def _channel_shuffle(self: torch.Tensor, groups: int) -> torch.Tensor:
    """In the memory format of the input, which upstream's kernels keep and its decomposition does not."""
    channels = self.shape[1]
    shuffled = self.unflatten(1, (groups, channels // groups)).transpose(1, 2).reshape(self.shape)
    return shuffled.contiguous(memory_format=suggest_memory_format(self))


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Whole where eager mode has one launch for it, else what eager mode launches: `taken` in
    csrc/aten/kernels/attention.cpp decides there."""
    if dropout_p or _is_one_launch(query, key, value, attn_mask, enable_gqa):
        return NotImplemented
    math = aten._scaled_dot_product_attention_math.default
    return math(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def _is_one_launch(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, enable_gqa: bool
) -> bool:
    if any(item.ndim != 4 or item.dtype != query.dtype for item in (query, key, value)):
        return False
    (b, heads, rows, e), (key_b, key_heads, keys, key_e) = query.shape, key.shape
    pairs = [(b, key_b), (b, value.shape[0]), (key_heads, value.shape[1]), (e, key_e), (keys, value.shape[2])]
    if any(_differ(*pair) for pair in pairs) or not _differ(e, 0) or not _differ(keys, 0):
        return False
    if _differ(heads, key_heads) and (not enable_gqa or not _differ(key_heads, 0) or _differ(heads % key_heads, 0)):
        return False
    if mask is None:
        return True
    scores = (b, heads, rows, keys)[4 - mask.ndim :] if mask.ndim <= 4 else ()
    return len(scores) == mask.ndim and not any(_differ(m, 1) and _differ(m, s) for m, s in zip(mask.shape, scores))


def _differ(a: int, b: int) -> bool:
    """Whether two sizes are never equal; a size that the call determines is not taken for 0."""
    return statically_known_true(a != b)


# Ours, where upstream has none or one that leads to ops without a kernel.
# They are what eager mode launches for the op.
ADDED: dict[torch._ops.OpOverload, Callable] = {
    aten.linalg_vector_norm.default: _vector_norm,
    # Upstream takes nn.RMSNorm apart into these. A number is an operand like any other.
    aten.add.Scalar: lambda self, other, alpha=1: torch.add(self, other, alpha=alpha),
    aten.sub.Scalar: lambda self, other, alpha=1: torch.sub(self, other, alpha=alpha),
    aten.mul.Scalar: lambda self, other: torch.mul(self, other),
    aten.div.Scalar: lambda self, other: torch.div(self, other),
    aten.isinf.default: _isinf,
    aten.scaled_dot_product_attention.default: _attention,
    aten.native_layer_norm_backward.default: layer_norm_backward,
    aten.native_group_norm_backward.default: group_norm_backward,
    aten.channel_shuffle.default: _channel_shuffle,
}


def decomposition_table(support: SupportTable) -> dict[torch._ops.OperatorBase, Callable]:
    """The table for ExportedProgram.run_decompositions. An op that eager mode runs natively stays whole."""
    return dict(_of_this_build()) if support is support_table() else _table(support)


@lru_cache(maxsize=1)
def _of_this_build() -> dict[torch._ops.OperatorBase, Callable]:
    return _table(support_table())


def _table(support: SupportTable) -> dict[torch._ops.OperatorBase, Callable]:
    table = dict(torch.export.default_decompositions().items())
    for op in list(table):
        if op in KEPT_WHOLE or _is_native(op, support):
            del table[op]
    table.update(ADDED)
    return table


def _is_native(op: torch._ops.OperatorBase, support: SupportTable) -> bool:
    entry = support.get(op_key(op))
    return entry is not None and (is_pointwise(entry) or op_key(op) in RULES)
