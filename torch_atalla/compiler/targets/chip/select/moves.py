# SPDX-License-Identifier: BSD-3-Clause
"""Moving numbers from one layout to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from ....program.ir import Operand, contiguous_strides
from ..kernels import scalar, transpose
from ..kernels.pointwise import Layout, Unsupported, collapse
from ..selection import Selection

MOST_FLIPPED = 128


def part(x: Operand, sizes: tuple[int, ...], firsts: Sequence[int]) -> Operand:
    return replace(behind(x, sum(first * stride for first, stride in zip(firsts, x.strides))), sizes=sizes)


def behind(x: Operand, elements: int) -> Operand:
    """So many elements of memory farther."""
    return replace(x, offset=x.offset + elements * x.dtype.itemsize)


def permuted(x: Operand, order: Sequence[int]) -> Operand:
    """With these of its dimensions, in this order."""
    return replace(x, sizes=tuple(x.sizes[d] for d in order), strides=tuple(x.strides[d] for d in order))


def _forwards(x: Operand) -> Operand:
    """With strides of dimensions of one element that have no sign."""
    return replace(x, strides=tuple(abs(step) if n == 1 else step for n, step in zip(x.sizes, x.strides)))


def emit_move(s: Selection, out: Operand, x: Operand) -> None:
    """out = x, of equal sizes, without broadcasting. Both are BF16 in DRAM. Dimensions through which one of them goes
    backwards are taken position by position."""
    counts = [n if min(a, b) < 0 else 1 for n, a, b in zip(out.sizes, out.strides, x.strides)]
    if prod(counts) > MOST_FLIPPED:
        raise Unsupported(f"{prod(counts)} blocks, whose order changes")
    if prod(counts) > 1:
        sizes = tuple(1 if count > 1 else n for n, count in zip(out.sizes, counts))
        for firsts in product(*map(range, counts)):
            emit_move(s, *(_forwards(part(o, sizes, firsts)) for o in (out, x)))
        return
    layout = collapse(Layout(out.sizes, (out.strides, x.strides)))
    if turned := transpose.plan(layout.sizes, *layout.strides):
        s.calls(transpose.build, turned, {"o": out, "x": x})
        return
    if layout.sizes == (1,) or (len(layout.sizes) == 1 and layout.strides == ((1,), (1,))):
        n = layout.sizes[0]
        pieces = (
            (0, (n // 1024, 32, 32)),
            (n // 1024 * 1024, (n % 1024 // 32, 32)),
            (n // 32 * 32, (n % 32,)),
        )
        for start, sizes in ((start, sizes) for start, sizes in pieces if 0 not in sizes):
            planned = scalar.plan_copy(sizes, *[contiguous_strides(sizes)] * 2)
            s.calls(scalar.build_copy, planned, {"o": behind(out, start), "x": behind(x, start)})
        return
    s.calls(scalar.build_copy, scalar.plan_copy(layout.sizes, *layout.strides), {"o": out, "x": x})
