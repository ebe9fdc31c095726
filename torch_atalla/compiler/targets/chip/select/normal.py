# SPDX-License-Identifier: BSD-3-Clause
"""Softmax, layer norm and RMS norm of rows."""

from __future__ import annotations

import torch

from ....program.ir import Launch, Operand
from ..kernels.pointwise import Unsupported
from ..selection import Selection, operands_of
from .lines import emit_rows
from .matrix import has_neighbours, stored_in, with_neighbours
from .moves import permuted


def softmax(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    dim = launch.parameter("dim")
    n = x.sizes[dim]
    if x.dtype is torch.bool:
        raise Unsupported("softmax of truth values")
    last = len(x.sizes) - 1
    x, target = moved(x, dim, last), moved(out, dim, last)
    x = with_neighbours(s, x, last)
    with stored_in(s, target, has_neighbours(target, last)) as result:
        emit_rows(s, "softmax", x, result, last, n)


def moved(x: Operand, dim: int, place: int) -> Operand:
    """With a dimension at another place."""
    order = [d for d in range(len(x.sizes)) if d != dim]
    order.insert(place, dim)
    return permuted(x, order)


def norm(s: Selection, launch: Launch) -> None:
    """layer_norm and rms_norm, without their statistics."""
    out, x = operands_of(launch)
    x = with_neighbours(s, x, 1)
    scale, shift = (given if isinstance(given, Operand) else None for given in (*launch.inputs[1:], None, None)[:2])
    with stored_in(s, out, has_neighbours(out, 1)) as result:
        emit_rows(s, launch.kernel, x, result, 1, x.sizes[1], scale, shift, launch.parameter("eps"))


SELECTORS = {"softmax": softmax}
