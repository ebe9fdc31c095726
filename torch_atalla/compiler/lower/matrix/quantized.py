# SPDX-License-Identifier: BSD-3-Clause
"""Products with encoded weights: one `gemm_quantized` launch each, and one for a bias, as in eager mode."""

from __future__ import annotations

from math import prod

import torch

from ..context import LoweringContext, Value
from ..registry import lowers

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_HELD = (*_FLOATS, torch.int8, torch.uint8)


@lowers("quantized_linear.default", dtypes=_FLOATS, operands=_HELD, promotes=True, namespace="atalla")
def quantized_linear(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    weight: Value,
    scales: Value,
    zeros: Value | None,
    bias: Value | None,
    encoding: str,
) -> Value:
    meta = node.meta["val"]
    rows, n = prod(input.shape[:-1]), weight.shape[0]
    a = ctx.reshape(input, (rows, input.shape[-1]))
    out = ctx.empty((rows, n), meta.dtype)
    ctx.launch("gemm_quantized", [out], [a, weight, scales, zeros], meta.dtype, encoding=encoding)
    if bias is not None:
        product, out = out, ctx.empty((rows, n), meta.dtype)
        ctx.launch("pointwise.add", [out], [product, bias.expand((rows, n))], meta.dtype, alpha=1)
    return out.view(out.meta.view(tuple(meta.shape)))
