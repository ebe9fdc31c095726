# SPDX-License-Identifier: BSD-3-Clause
"""Softmax, layer norm and RMS norm of rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from ....program.ir import Launch, Operand, contiguous_strides
from ..kernels.pointwise import Unsupported
from ..selection import Selection, check_dtypes
from .data import emit_copy
from .lines import emit_rows
from .matrix import dense


def softmax(s: Selection, launch: Launch) -> None:
    (out,), (x, *_) = launch.outputs, launch.inputs
    assert out is not None and isinstance(x, Operand)
    dim = launch.parameter("dim")
    n = x.sizes[dim]
    check_dtypes((x, out))
    if x.dtype is torch.bool:
        raise Unsupported("softmax of truth values")
    last = len(x.sizes) - 1
    x, target = moved(x, dim, last), moved(out, dim, last)
    if n > 1 and x.strides[last] != 1:
        x = dense(s, x)
    result = target
    if n > 1 and target.strides[last] != 1:
        result = s.new_operand(target.sizes, contiguous_strides(target.sizes), prod(target.sizes))
    emit_rows(s, "softmax", x, result, last, n)
    if result is not target:
        emit_copy(s, target, result)


def moved(x: Operand, dim: int, place: int) -> Operand:
    """With a dimension at another place."""
    order = [d for d in range(len(x.sizes)) if d != dim]
    order.insert(place, dim)
    return replace(x, sizes=tuple(x.sizes[d] for d in order), strides=tuple(x.strides[d] for d in order))


def norm(s: Selection, launch: Launch) -> None:
    """layer_norm and rms_norm, without their statistics."""
    out = launch.outputs[0]
    x, weight, bias = (*launch.inputs, None, None)[:3]
    assert out is not None and isinstance(x, Operand)
    n = x.sizes[1]
    if n > 1 and x.strides[1] != 1:
        x = dense(s, x)
    result = out
    if n > 1 and out.strides[1] != 1:
        result = s.new_operand(out.sizes, contiguous_strides(out.sizes), prod(out.sizes))
    scale, shift = (given if isinstance(given, Operand) else None for given in (weight, bias))
    emit_rows(s, launch.kernel, x, result, 1, n, scale, shift, launch.parameter("eps"))
    if result is not out:
        emit_copy(s, out, result)


SELECTORS = {"softmax": softmax}
