# SPDX-License-Identifier: BSD-3-Clause
"""The two ops that quantized models call. On the CPU they are the references here, so that models can be quantized,
exported and compared there.

`atalla::quantized_linear(input, weight, scales, zeros, bias, encoding)`: x @ w' + bias, w encoded. On the device it is
one launch of `gemm_quantized` (csrc/aten/kernels/matrix/quantized_mm.cpp, which defines the op), and one more for the
bias. The input has a gradient; the weight has none.

`atalla::int_convolution(input, weight, bias, outside, ...)`: a convolution of int8 tensors with int32 sums. `bias` is
int32, or None. `outside`, one integer or None, is the value of positions outside the input: the zero point of a
quantized image, whose padding is zeros. The other arguments are those of `aten::convolution`. The result is
contiguous. On the device it is one launch of `convolution` (csrc/aten/kernels/matrix/convolution.cpp, which defines the
op), and one for each remainder of the positions by the stride if it is transposed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from .encoding import check_encoding, decode, elements_per_byte

LINEAR = "atalla::quantized_linear"
CONVOLUTION = "atalla::int_convolution"


def _linear(
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


def _fake_linear(
    input: torch.Tensor,  # noqa: A002
    weight: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    bias: torch.Tensor | None,
    encoding: str,
) -> torch.Tensor:
    check_encoding(encoding)
    k = weight.shape[1] * elements_per_byte(encoding)
    torch._check(input.shape[-1] == k, lambda: f"{LINEAR}: expected rows of {k} elements, got {tuple(input.shape)}")
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


def _convolve(
    input: torch.Tensor,  # noqa: A002 (the schema's name)
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    outside: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> torch.Tensor:
    """In float64, which holds every sum of fewer than 2^38 products of bytes."""
    if input.dtype != torch.int8 or weight.dtype != torch.int8:
        raise TypeError(f"{CONVOLUTION}: expected two int8 tensors, got {input.dtype} and {weight.dtype}")
    if outside is not None and transposed:
        raise ValueError(f"{CONVOLUTION}: a transposed convolution takes no `outside`; pass None")
    image = input.double()
    if outside is not None:
        border = outside.double().reshape(())
        image = F.pad(image - border, [size for size in reversed(padding) for _ in range(2)]) + border
        padding = [0] * len(padding)
    double = None if bias is None else bias.double()
    out = torch.convolution(
        image, weight.double(), double, stride, padding, dilation, transposed, output_padding, groups
    )
    return out.to(torch.int64).to(torch.int32).contiguous()


def install() -> None:
    torch.library.register_kernel(LINEAR, "cpu", _linear)
    torch.library.register_fake(LINEAR, _fake_linear)
    torch.library.register_autograd(LINEAR, _backward, setup_context=_save)
    torch.library.register_kernel(CONVOLUTION, "cpu", _convolve)
    torch.library.register_fake(CONVOLUTION, _convolve)
