# SPDX-License-Identifier: BSD-3-Clause
"""The grouped products of transformers, which the library composes of ops that eager mode cannot record."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import FLOATING

from ..program.layouts import dense_meta
from .context import LoweringContext
from .registry import lowers
from .value import Value


@lowers("grouped_mm_fallback.default", dtypes=FLOATING, namespace="transformers")
def grouped_mm_fallback(
    ctx: LoweringContext, node: torch.fx.Node, *, input: Value, weight: Value, offs: Value
) -> Value:
    """What transformers exports for its mixtures of experts in other dtypes than bfloat16: groups of rows."""
    out = ctx.result_of(node)
    ctx.launch("gemm_grouped", [out], [input, weight, ctx.cast(offs, torch.int32)], out.dtype)
    return out


@lowers("grouped_mm_fallback_backward.default", dtypes=FLOATING, namespace="transformers")
def grouped_mm_fallback_backward(
    ctx: LoweringContext, node: torch.fx.Node, *, input: Value, weight: Value, offs: Value, grad_output: Value
) -> tuple[Value, Value]:
    """Groups of rows for the input's gradient, groups of the contracted dimension for the weight's."""
    grad_input, grad_weight = (ctx.new_value(dense_meta(value)) for value in node.meta["val"])
    ends = ctx.cast(offs, torch.int32)
    transposed = weight.view(weight.meta.transpose(1, 2))
    ctx.launch("gemm_grouped", [grad_input], [grad_output, transposed, ends], input.dtype)
    ctx.launch("gemm_grouped", [grad_weight], [input.view(input.meta.t()), grad_output, ends], input.dtype)
    return grad_input, grad_weight
