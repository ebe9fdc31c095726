# SPDX-License-Identifier: BSD-3-Clause
"""Tensors whose conjugation or negation is pending, as programs take them."""

from __future__ import annotations

import torch


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without pending conjugation or negation: itself, or a copy of the same strides.

    Between the elements of a tensor with gaps lie elements of its storage, which a program may read (as_strided): the
    copy has them as well.
    """
    if not (tensor.is_conj() or tensor.is_neg()):
        return tensor
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    if tensor.numel() in (0, span):
        return tensor.resolve_conj().resolve_neg()
    line = tensor.as_strided((span,), (1,)).resolve_conj().resolve_neg()
    return line.as_strided(tensor.shape, tensor.stride())
