# SPDX-License-Identifier: BSD-3-Clause
"""The op `atalla::quantized_linear(input, weight, scales, zeros, bias, encoding)`: x @ w' + bias, w encoded.

On the device it is one launch of `gemm_quantized` (csrc/aten/kernels/matrix/quantized_mm.cpp, which defines the op),
and one more for the bias. On the CPU it is the reference here, so that models can be quantized, exported and compared
there. The input has a gradient; the weight has none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from .encoding import check_encoding, decode, elements_per_byte

NAME = "atalla::quantized_linear"


def _cpu(
    input: torch.Tensor,  # noqa: A002 (the schema's name)
    weight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    bias: torch.Tensor | None,
    encoding: str,
) -> torch.Tensor:
    check_encoding(encoding)
    out = F.linear(input.float(), decode(weight, scales, zeros, encoding)).to(input.dtype)
    return out if bias is None else (out + bias).to(input.dtype)


def _fake(
    input: torch.Tensor,  # noqa: A002
    weight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    bias: torch.Tensor | None,
    encoding: str,
) -> torch.Tensor:
    check_encoding(encoding)
    k = weight.shape[1] * elements_per_byte(encoding)
    torch._check(input.shape[-1] == k, lambda: f"{NAME}: expected rows of {k} elements, got {tuple(input.shape)}")
    return input.new_empty((*input.shape[:-1], weight.shape[0]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, weight, scales, zeros, bias, ctx.encoding = inputs
    ctx.save_for_backward(weight, scales, zeros, bias)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    weight, scales, zeros, bias = ctx.saved_tensors
    of_input = of_bias = None
    if ctx.needs_input_grad[0]:
        of_input = grad @ decode(weight, scales, zeros, ctx.encoding).to(grad.dtype)
    if bias is not None and ctx.needs_input_grad[4]:
        of_bias = grad.sum(tuple(range(grad.ndim - 1))).to(bias.dtype)
    return of_input, None, None, None, of_bias, None


def install() -> None:
    torch.library.register_kernel(NAME, "cpu", _cpu)
    torch.library.register_fake(NAME, _fake)
    torch.library.register_autograd(NAME, _backward, setup_context=_save)
