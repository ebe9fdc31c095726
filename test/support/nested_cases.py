# SPDX-License-Identifier: BSD-3-Clause
"""Calls of every operator on nested tensors of strided layout, for the sweep against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

WIDTH = 4
Case = Callable[[Tensor], Any]


def components(shapes: list[tuple[int, ...]]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator) for shape in shapes]


INPUTS: dict[str, list[Tensor]] = {
    "rows": components([(2, 4), (3, 4), (1, 4)]),
    "ragged": components([(2, 3), (3, 1), (1, 4)]),
    "with_empty": components([(2, 4), (0, 4), (3, 4)]),
    "all_empty": components([(0, 4), (0, 4), (0, 4)]),
    "vectors": components([(2,), (5,), (3,)]),
    "cubes": components([(2, 3, 4), (2, 1, 4)]),
}


def nested(parts: list[Tensor], device: str, **kwargs: Any) -> Tensor:
    return torch.nested.nested_tensor(parts, device=device, **kwargs)


def ramp(x: Tensor, *shape: int) -> Tensor:
    """A dense tensor of the device and dtype of x, with values in [-1, 1]."""
    return torch.linspace(-1, 1, torch.Size(shape).numel()).to(x.device, x.dtype).view(shape)


def mask_of(x: Tensor) -> Tensor:
    return torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0]], dtype=torch.bool, device=x.device)


def in_place(name: str, *args: Any) -> Case:
    return lambda x: getattr(x.clone(), name)(*args)


def heads(x: Tensor) -> Tensor:
    """[batch, positions, width] -> contiguous [batch, heads, positions, width of a head]."""
    return x.view(x.size(0), -1, 2, WIDTH // 2).transpose(1, 2).contiguous()


def attention(x: Tensor, need_weights: bool, average: bool = True) -> Any:
    weights = ramp(x, 3 * WIDTH, WIDTH), ramp(x, 3 * WIDTH), ramp(x, WIDTH, WIDTH), ramp(x, WIDTH)
    return torch._native_multi_head_attention(x, x, x, WIDTH, 2, *weights, None, need_weights, average)


def encoder_layer(x: Tensor, norm_first: bool, use_gelu: bool = False) -> Tensor:
    norm = ramp(x, WIDTH), ramp(x, WIDTH)
    return torch._transformer_encoder_layer_fwd(
        x, WIDTH, 2, ramp(x, 3 * WIDTH, WIDTH), ramp(x, 3 * WIDTH), ramp(x, WIDTH, WIDTH), ramp(x, WIDTH), use_gelu,
        norm_first, 1e-5, *norm, *norm, ramp(x, 8, WIDTH), ramp(x, 8), ramp(x, WIDTH, 8), ramp(x, WIDTH),
    )  # fmt: skip


def metadata(x: Tensor) -> list[Tensor]:
    return [x._nested_tensor_size(), x._nested_tensor_strides(), x._nested_tensor_storage_offsets()]


UNARY = ("abs", "neg", "sgn", "tanh", "relu", "logical_not", "cos", "sin", "sqrt", "isnan", "isinf", "isposinf",
         "isneginf", "clone", "detach", "ones_like", "zeros_like")  # fmt: skip
UNARY_IN_PLACE = ("abs_", "neg_", "sgn_", "tanh_", "relu_", "logical_not_", "zero_")

POINTWISE: dict[str, Case] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_": lambda x: torch.ops.aten.gelu_(x.clone()),
    "silu": F.silu,
    "silu_": lambda x: F.silu(x.clone(), inplace=True),
    "fill_scalar": in_place("fill_", 2.5),
    "fill_tensor": lambda x: x.clone().fill_(ramp(x, 1)[0]),
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "add": lambda x: x + x * 2,
    "add_alpha": lambda x: torch.add(x, x, alpha=3),
    "add_scalar": lambda x: x + 1.5,
    "add_": lambda x: x.clone().add_(x),
    "sub": lambda x: x - x * 3,
    "mul": lambda x: x * x,
    "mul_scalar": lambda x: 2 * x,
    "mul_": lambda x: x.clone().mul_(x),
    "mul_scalar_": in_place("mul_", 3),
    "div": lambda x: x / (x * x + 2),
    "div_scalar": lambda x: x / 3,
    "ops_mul_scalar": lambda x: torch.ops.aten.mul.Scalar(x, 3),
    "ops_mul_scalar_": lambda x: torch.ops.aten.mul_.Scalar(x.clone(), 3),
    "ops_div_scalar": lambda x: torch.ops.aten.div.Scalar(x, 3),
    "mixed_dtypes": lambda x: x + x.to(torch.float16),
    "eq_scalar": lambda x: x == 0,
    "eq_tensor": lambda x: x == ramp(x, 1)[0],
    "eq_nested": lambda x: x == x,
    "ge": lambda x: x >= 0,
    "gt": lambda x: x > 0,
    "all": lambda x: (x > 0).all(-1),
    "masked_fill": lambda x: x.masked_fill(x > 0, 3.0),
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "where_scalar": lambda x: torch.where(x > 0, x, 0.0),
    "where_out": lambda x: torch.where(x > 0, x, x * 2, out=torch.empty_like(x)),
    "other_sizes": lambda x: x + nested([torch.ones(2, 2), torch.ones(1, 2)], str(x.device)),
    "different_strides": lambda x: x + x.transpose(1, 2).contiguous().transpose(1, 2),
    "dropout_of_0": lambda x: torch.native_dropout(x, 0.0, True),
    "dropout_of_1": lambda x: torch.native_dropout(x, 1.0, True),
    "dropout_in_evaluation": lambda x: F.dropout(x, 0.5, training=False),
}  # fmt: skip

REDUCTIONS: dict[str, Case] = {
    "sum": lambda x: x.sum(-1, keepdim=True),
    "sum_without_keepdim": lambda x: x.sum(-1),
    "sum_of_the_batch": lambda x: x.sum(0, keepdim=True),
    "sum_of_everything": lambda x: x.sum(),
    "sum_dtype": lambda x: x.sum(-1, keepdim=True, dtype=torch.float64),
    "mean": lambda x: x.mean(),
    "softmax": lambda x: x.softmax(-1),
    "softmax_1": lambda x: x.softmax(1),
    "softmax_0": lambda x: x.softmax(0),
    "safe_softmax": lambda x: torch._safe_softmax(x, -1),
    "softmax_with_shape": lambda x: torch._nested_tensor_softmax_with_shape(ramp(x, x.size(0), 2, 3, 3), x),
    "layer_norm": lambda x: F.layer_norm(x, (WIDTH,), ramp(x, WIDTH), ramp(x, WIDTH)),
    "layer_norm_2d": lambda x: F.layer_norm(x.unsqueeze(2), (1, WIDTH), ramp(x, 1, WIDTH), ramp(x, 1, WIDTH)),
    "layer_norm_of_ragged": lambda x: F.layer_norm(x, (2,), ramp(x, 2), ramp(x, 2)),
    "layer_norm_without_weight": lambda x: F.layer_norm(x, (WIDTH,)),
}

PRODUCTS: dict[str, Case] = {
    "linear": lambda x: F.linear(x, ramp(x, 5, WIDTH), ramp(x, 5)),
    "linear_without_bias": lambda x: F.linear(x, ramp(x, 5, WIDTH)),
    "linear_of_another_width": lambda x: F.linear(x, ramp(x, 5, 7)),
    "linear_gradients": lambda x: linear_gradients(x),
    "matmul": lambda x: x @ x.transpose(1, 2),
    "matmul_4d": lambda x: heads(x) @ heads(x).transpose(2, 3),
    "matmul_dense": lambda x: x @ ramp(x, WIDTH, 3),
    "matmul_dense_4d": lambda x: x.unsqueeze(2) @ ramp(x, WIDTH, 3),
    "matmul_out": lambda x: torch.matmul(x, x.transpose(1, 2), out=torch.empty_like(x @ x.transpose(1, 2))),
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "bmm_dense": lambda x: torch.bmm(x, ramp(x, x.size(0), WIDTH, 2)),
    "sdpa": lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
    "sdpa_of_views": lambda x: F.scaled_dot_product_attention(*[x.view(3, -1, 2, 2).transpose(1, 2)] * 3),
    "sdp_choice": lambda x: torch.tensor(torch._fused_sdp_choice(heads(x), heads(x), heads(x)) == 0),
    "transform_bias_rescale_qkv": lambda x: torch._transform_bias_rescale_qkv(
        F.linear(x, ramp(x, 3 * WIDTH, WIDTH)), ramp(x, 3 * WIDTH), 2
    ),
    "multi_head_attention": lambda x: attention(x, need_weights=False),
    "multi_head_attention_weights": lambda x: attention(x, need_weights=True),
    "multi_head_attention_all_weights": lambda x: attention(x, need_weights=True, average=False),
    "encoder_layer": lambda x: encoder_layer(x, norm_first=False),
    "encoder_layer_norm_first": lambda x: encoder_layer(x, norm_first=True, use_gelu=True),
    "embedding": lambda x: F.embedding(nested([torch.tensor([0, 2]), torch.tensor([1])], str(x.device)), ramp(x, 3, 4)),
}

SHAPES: dict[str, Case] = {
    "chunk": lambda x: x.chunk(2, -1),
    "chunk_of_the_batch": lambda x: x.chunk(2, 0),
    "split": lambda x: x.split([1, WIDTH - 1], -1),
    "select_component": lambda x: x[1],
    "select_column": lambda x: x.select(x.dim() - 1, 0),
    "select_out_of_range": lambda x: x[7],
    "narrow": lambda x: x.narrow(0, 1, 1),
    "slice": lambda x: x[:2],
    "transpose": lambda x: x.transpose(1, 2),
    "transpose_contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "transpose_of_the_batch": lambda x: x.transpose(0, 1),
    "view": lambda x: x.view(x.size(0), -1, 2, 2),
    "reshape": lambda x: x.transpose(1, 2).reshape(x.size(0), 2, 2, -1),
    "reshape_as": lambda x: x.reshape_as(x),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(2).squeeze(2),
    "squeeze_dims": lambda x: x.unsqueeze(2).squeeze((2,)),
    "squeeze_all": lambda x: x.unsqueeze(2).squeeze(),
    "unbind": lambda x: x.unbind(),
    "unbind_1": lambda x: x.unbind(1),
    "values": lambda x: x.values(),
    "cat": lambda x: torch.cat([x, x * 2]),
    "cat_1": lambda x: torch.cat([x, x], 1),
    "alias": lambda x: torch.ops.aten.alias(x),
    "metadata": metadata,
    "metadata_of_a_view": lambda x: metadata(x.transpose(1, 2)),
    "is_same_size": lambda x: torch.tensor([torch.ops.aten.is_same_size(x, y) for y in (x, x.unsqueeze(1))]),
}

CONVERSIONS: dict[str, Case] = {
    "to_padded": lambda x: x.to_padded_tensor(1.5),
    "to_padded_size": lambda x: x.to_padded_tensor(-1.0, (x.size(0), *[6] * (x.dim() - 1))),
    "to_padded_too_small": lambda x: x.to_padded_tensor(0.0, (x.size(0), *[1] * (x.dim() - 1))),
    "to_padded_of_other_rank": lambda x: x.to_padded_tensor(0.0, (3, 3)),
    "to_padded_view": lambda x: x.transpose(1, 2).to_padded_tensor(0.0),
    "to_padded_integers": lambda x: (x * 9).to(torch.int32).to_padded_tensor(-7),
    "to_padded_booleans": lambda x: (x > 0).to_padded_tensor(1),
    "to_padded_integers_with_infinity": lambda x: x.to(torch.int32).to_padded_tensor(float("inf")),
    "to_padded_maximum": lambda x: x.to_padded_tensor(0.0).amax(1),
    "from_padded": lambda x: torch._nested_from_padded(x.to_padded_tensor(0.0) * 2, x._nested_tensor_size()),
    "from_larger_padded": lambda x: torch._nested_from_padded(
        x.to_padded_tensor(0.0, (x.size(0), *[6] * (x.dim() - 1))), x._nested_tensor_size()
    ),
    "from_padded_heads": lambda x: torch._nested_from_padded(ramp(x, 3, 2, 3, 2), x._nested_tensor_size(), True),
    "from_padded_and_example": lambda x: torch._nested_from_padded_and_nested_example(x.to_padded_tensor(0.0), x),
    "from_mask": lambda x: torch._nested_tensor_from_mask(ramp(x, 3, 3, WIDTH), mask_of(x)),
    "from_mask_with_gaps": lambda x: torch._nested_tensor_from_mask(ramp(x, 3, 3, WIDTH), ~mask_of(x)),
    "from_mask_unchecked": lambda x: torch._nested_tensor_from_mask(ramp(x, 3, 3, WIDTH), ~mask_of(x), False),
    "is_left_aligned": lambda x: torch.tensor(
        [torch._nested_tensor_from_mask_left_aligned(ramp(x, 3, 3, 1), m) for m in (mask_of(x), ~mask_of(x))]
    ),
    "view_from_buffer": lambda x: torch._nested_view_from_buffer(ramp(x, x.numel()), *metadata(x)),
    "as_nested": lambda x: torch.nested.as_nested_tensor(list(x.unbind())),
    "to_half": lambda x: x.to(torch.float16),
    "to_integers": lambda x: (x * 3).to(torch.int64),
    "to_cpu": lambda x: x.cpu() * 1,
    "to_and_fro": lambda x: x.cpu().to(x.device) * 2,
    "copy_": lambda x: torch.empty_like(x).copy_(x),
    "copy_from_cpu_": lambda x: torch.empty_like(x).copy_(x.cpu()),
    "copy_to_cpu_": lambda x: torch.empty_like(x.cpu()).copy_(x),
    "copy_other_sizes_": lambda x: torch.empty_like(x).copy_(nested([torch.ones(1, 1)] * 3, str(x.device))),
    "contiguous": lambda x: x.contiguous(),
    "is_pinned": lambda x: torch.tensor(x.is_pinned()),
    "new_empty": lambda x: x.new_empty((2, 3)),
}


def linear_gradients(x: Tensor) -> list[Tensor]:
    weight, bias = ramp(x, 5, WIDTH).requires_grad_(), ramp(x, 5).requires_grad_()
    out = F.linear(x.detach(), weight, bias)
    return list(torch.autograd.grad(out.to_padded_tensor(0.0).square().sum(), [weight, bias]))


CASES: dict[str, Case] = {
    **{name: getattr(torch, name) for name in UNARY},
    **{name: in_place(name) for name in UNARY_IN_PLACE},
    **POINTWISE,
    **REDUCTIONS,
    **PRODUCTS,
    **SHAPES,
    **CONVERSIONS,
}
