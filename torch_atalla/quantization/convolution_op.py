# SPDX-License-Identifier: BSD-3-Clause
"""The op `atalla::int_convolution(input, weight, bias, outside, ...)`: a convolution of int8 tensors with int32 sums.

`bias` is int32, or None. `outside`, one integer or None, is the value of positions outside the input: the zero point of
a quantized image, whose padding is zeros. The other arguments are those of `aten::convolution`. The result is
contiguous. On the device it is one launch of `convolution` (csrc/aten/kernels/matrix/quantized_convolution.cpp, which
defines the op), and one for each remainder of the positions by the stride if it is transposed. On the CPU it is the
reference here.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

NAME = "atalla::int_convolution"


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
        raise TypeError(f"{NAME}: expected two int8 tensors, got {input.dtype} and {weight.dtype}")
    if outside is not None and transposed:
        raise ValueError(f"{NAME}: a transposed convolution takes no `outside`; pass None")
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
    torch.library.register_kernel(NAME, "cpu", _convolve)
    torch.library.register_fake(NAME, _convolve)
