# SPDX-License-Identifier: BSD-3-Clause
"""Softmax and layer norm."""

from __future__ import annotations

from math import prod

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.loadable.errors import NotNativeError

from ...program.layouts import dense_meta, is_contiguous
from ..context import LoweringContext, Value
from ..registry import lowers, reads


@lowers("_softmax.default", dtypes=FLOATING)
def softmax(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, half_to_float: bool) -> Value:
    return _softmax(ctx, node, "softmax", self, dim)


@lowers("_log_softmax.default", dtypes=FLOATING)
def log_softmax(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, half_to_float: bool) -> Value:
    return _softmax(ctx, node, "log_softmax", self, dim)


def _softmax(ctx: LoweringContext, node: torch.fx.Node, kernel: str, self: Value, dim: int) -> Value:
    out = ctx.empty(node.meta["val"].shape, node.meta["val"].dtype)
    result = out
    if self.ndim == 0:
        self, result, dim = self.unsqueeze(0), out.unsqueeze(0), 0
    ctx.launch(kernel, [result], [self], out.dtype, dim=dim % self.ndim)
    return out


@lowers("layer_norm.default", dtypes=FLOATING)
def layer_norm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    normalized_shape: list[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
    cudnn_enable: bool,
) -> Value:
    dtype = node.meta["val"].dtype
    return _layer_norm(ctx, input, normalized_shape, weight, bias, eps, None, dtype=dtype)[0]


@lowers("rms_norm.default", dtypes=FLOATING)
def rms_norm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    normalized_shape: list[int],
    weight: Value | None,
    eps: float | None,
) -> Value:
    """Only where fuse_norms found one: eager mode launches its parts."""
    dtype = node.meta["val"].dtype
    if eps is None:
        eps = torch.finfo(input.dtype).eps
    return _layer_norm(ctx, input, normalized_shape, weight, None, eps, None, kernel="rms_norm", dtype=dtype)[0]


@lowers("native_layer_norm.default", dtypes=FLOATING)
def native_layer_norm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    normalized_shape: list[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value | None, Value | None]:
    statistics = node.meta["val"][1].dtype if reads(node, 1) or reads(node, 2) else None
    return _layer_norm(ctx, input, normalized_shape, weight, bias, eps, statistics)


def _layer_norm(
    ctx: LoweringContext,
    source: Value,
    normalized_shape: list[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
    statistics: torch.dtype | None,
    *,
    kernel: str = "layer_norm",
    dtype: torch.dtype | None = None,
) -> tuple[Value, Value | None, Value | None]:
    """The normalised dimensions are one row. `statistics`: dtype of mean and reciprocal deviation, or None if nobody
    reads them. `dtype`: of the result, else the input's; where it is another, the arithmetic is float32's (float64's).
    """
    compute = source.dtype
    if dtype not in (None, compute):
        compute = torch.float64 if torch.float64 in (dtype, compute) else torch.float32
    n = prod(normalized_shape)
    m = prod(source.shape[: source.ndim - len(normalized_shape)])
    rows = ctx.reshape(source, (m, n))
    out = ctx.empty((m, n), dtype or source.dtype)
    mean = None if statistics is None else ctx.empty((m,), statistics)
    rstd = None if statistics is None else ctx.empty((m,), statistics)
    weight = None if weight is None else ctx.reshape(weight, (n,))
    bias = None if bias is None else ctx.reshape(bias, (n,))
    ctx.launch(kernel, [out, mean, rstd], [rows, weight, bias], compute, eps=eps)
    kept = (*source.shape[: source.ndim - len(normalized_shape)], *(1 for _ in normalized_shape))
    stats = tuple(None if value is None else value.view(value.meta.view(kept)) for value in (mean, rstd))
    return out.view(out.meta.view(source.shape)), stats[0], stats[1]


@lowers("_native_batch_norm_legit_no_training.default", dtypes=FLOATING)
def batch_norm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: float,
    eps: float,
) -> tuple[Value, Value | None, Value | None]:
    """With stored statistics: a factor and a term for each channel, in one launch. Those of the batch are empty."""
    if running_mean is None or running_var is None or input.ndim < 2:
        raise NotNativeError("batch norm without running statistics, or of fewer than 2 dimensions")
    if not is_contiguous(input.meta):
        input = ctx.contiguous(input)
    n, c = input.shape[:2]
    image = prod(input.shape[2:])
    out = ctx.new_value(dense_meta(input.meta))
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32

    def channels(value: Value | None) -> Value | None:
        return None if value is None else value.view(value.meta.view(1, 1, c).expand(n, 1, c))

    rows = [value.view(value.meta.view(n, 1, c, image)) for value in (out, input)]
    statistics = [channels(value) for value in (running_mean, running_var, weight, bias)]
    ctx.launch("channel_norm.apply", [rows[0]], [rows[1], *statistics], wide, from_variance=True, eps=eps)
    empty = [
        ctx.empty(node.meta["val"][k].shape, node.meta["val"][k].dtype) if reads(node, k) else None for k in (1, 2)
    ]
    return out, empty[0], empty[1]
