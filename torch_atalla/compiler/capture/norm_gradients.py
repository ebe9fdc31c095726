# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of layer and group norm, taken apart as eager mode does (csrc/aten/kernels/norm/norm_backward.cpp), so that
loadables have its bits."""

from __future__ import annotations

import torch
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

Gradients = tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.float32) if value.dtype in (torch.float16, torch.bfloat16) else value


def _of_input(
    g: torch.Tensor, y: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor | None, dims: list[int]
) -> torch.Tensor:
    """`y`: the normalized input. `dims`: what was normalized."""
    scaled = g if weight is None else g * weight
    centered = scaled - scaled.mean(dims, True)
    return (centered - y * (scaled * y).mean(dims, True)) * rstd


def layer_norm_backward(
    grad_out: torch.Tensor,
    input: torch.Tensor,  # noqa: A002 (upstream's name)
    normalized_shape: list[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    output_mask: list[bool],
) -> Gradients:
    """aten::native_layer_norm_backward."""
    if statically_known_true(input.numel() == 0):
        return NotImplemented
    outer = input.ndim - len(normalized_shape)
    rows, columns = list(range(outer)), list(range(outer, input.ndim))
    statistic = [*input.shape[:outer], *(1 for _ in columns)]
    g, r = _wide(grad_out), _wide(rstd).reshape(statistic)
    y = (_wide(input) - _wide(mean).reshape(statistic)) * r
    weight_dtype = input.dtype if weight is None else weight.dtype
    bias_dtype = weight_dtype if bias is None else bias.dtype

    def over_rows(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return (value.sum(rows) if rows else value).to(dtype)

    wide_weight = None if weight is None else _wide(weight)
    return (
        _of_input(g, y, r, wide_weight, columns).to(input.dtype) if output_mask[0] else None,
        over_rows(g * y, weight_dtype) if output_mask[1] else None,
        over_rows(g, bias_dtype) if output_mask[2] else None,
    )


def group_norm_backward(
    grad_out: torch.Tensor,
    input: torch.Tensor,  # noqa: A002 (upstream's name)
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    n: int,
    c: int,
    image: int,
    group: int,
    output_mask: list[bool],
) -> Gradients:
    """aten::native_group_norm_backward."""
    if statically_known_true(input.numel() == 0):
        return NotImplemented
    sizes = [n, group, c // group, image]
    g, r = _wide(grad_out).contiguous().view(sizes), _wide(rstd).reshape([n, group, 1, 1])
    y = (_wide(input).contiguous().view(sizes) - _wide(mean).reshape([n, group, 1, 1])) * r
    w = None if weight is None else _wide(weight).reshape([1, group, c // group, 1])
    parameter = input.dtype if weight is None else weight.dtype
    gradient = None
    if output_mask[0]:
        gradient = _of_input(g, y, r, w, [2, 3]).reshape(input.shape).to(input.dtype)
        gradient = gradient.contiguous(memory_format=suggest_memory_format(input))
    return (
        gradient,
        (g * y).sum([0, 3]).reshape([c]).to(parameter) if output_mask[1] else None,
        g.sum([0, 3]).reshape([c]).to(parameter) if output_mask[2] else None,
    )
