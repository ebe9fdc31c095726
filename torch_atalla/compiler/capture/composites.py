# SPDX-License-Identifier: BSD-3-Clause
"""Ops that eager mode runs as upstream's compositions in C++, composed in the same way: torch.export's own
decompositions are others, and would give other last bits."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_atalla.driver.torch_versions import since

aten = torch.ops.aten


def scaled_dot_product_attention(
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
    """Whole where eager mode has one launch for it, else what eager mode launches: `supports_fused_attention` in
    csrc/aten/kernels/matrix/attention.cpp decides there."""
    if since("2.15") and all(item.ndim == 3 for item in (query, key, value)):  # as upstream does first
        if attn_mask is not None and attn_mask.ndim < 4:
            attn_mask = attn_mask.reshape((1,) * (4 - attn_mask.ndim) + attn_mask.shape)
        whole = torch.ops.aten.scaled_dot_product_attention.default
        operands = (item.unsqueeze(0) for item in (query, key, value))
        options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
        return whole(*operands, attn_mask, dropout_p, is_causal, **options).squeeze(0)
    if dropout_p:
        return NotImplemented
    is_whole = _is_one_launch(query, key, value, attn_mask, enable_gqa)
    if attn_mask is not None and attn_mask.dtype == torch.bool:  # as upstream does before it chooses a way
        shown, hidden = (torch.scalar_tensor(number, dtype=query.dtype, device=query.device) for number in (0.0, -inf))
        attn_mask = torch.where(attn_mask, shown, hidden)
    elif is_whole:
        return NotImplemented
    if is_whole:
        whole = aten.scaled_dot_product_attention.default
        return whole(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
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
    """Whether two sizes are known to differ."""
    return statically_known_true(a != b)


def affine_grid_generator(theta: torch.Tensor, size: list[int], align_corners: bool) -> torch.Tensor:
    n, _, *image = size

    def positions(count: int) -> torch.Tensor:
        if count <= 1:
            return torch.zeros((1,), dtype=theta.dtype, device=theta.device)
        evenly = torch.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device)
        return evenly if align_corners else evenly * (count - 1) / count

    axes = [
        positions(count).reshape([-1 if d == dim else 1 for d in range(len(image))]).expand(image)
        for dim, count in enumerate(image)
    ]
    ones = torch.ones(image, dtype=theta.dtype, device=theta.device)
    base = torch.stack([*reversed(axes), ones], -1).expand(n, *image, len(image) + 1)
    grid = base.reshape(n, -1, len(image) + 1).bmm(theta.transpose(1, 2))
    return grid.view(n, *image, len(image))


def resize_as(
    self: torch.Tensor, the_template: torch.Tensor, *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """Without a memory format, a tensor that has the sizes already keeps its strides, and with them its values.
    Upstream's decomposition makes it contiguous."""
    if memory_format == torch.preserve_format:
        memory_format = suggest_memory_format(the_template)
    return torch.ops.aten.resize(self, the_template.shape, memory_format=memory_format)


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:  # noqa: A002
    """Whole where eager mode has one launch for it. Of a strided input, eager mode adds the bias to a rounded product,
    and that is one product if the weight is a parameter, and a batch of products otherwise. torch 2.15 makes one
    product also if only dimensions of one element keep the rows from being one run."""
    is_one_product = weight.requires_grad or (
        since("2.15") and any(statically_known_true(size == 1) for size in input.shape) and _has_one_run_of_rows(input)
    )
    if input.ndim == 2 or input.is_contiguous():
        return NotImplemented
    if is_one_product:
        *batch, columns = input.shape
        product = torch.mm(input.reshape(prod(batch), columns), weight.t()).view(*batch, weight.shape[0])
    else:
        product = torch.matmul(input, weight.t())
    return product if bias is None else product + bias


def _has_one_run_of_rows(x: torch.Tensor) -> bool:
    """Whether the rows of a tensor follow each other at one stride."""
    rows = [(size, stride) for size, stride in zip(x.shape[:-1], x.stride()) if not statically_known_true(size == 1)]
    return all(statically_known_true(stride == size * inner) for (_, stride), (size, inner) in zip(rows, rows[1:]))


def upsample(packet: Any, *args: Any) -> torch.Tensor:
    """The overload `vec` of an op that resizes images, for a dynamic size: upstream's kernel in C++ takes numbers
    only. args: the input, the size or None, then `align_corners` if the op has it, and the factors or None."""
    input, size, *align, factors = args  # noqa: A001 (upstream's name)
    size = upsample_compute_output_size(input.shape, size, factors)
    return packet.default(input, size, *align, *(factors or [None] * len(size)))
