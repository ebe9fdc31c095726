# SPDX-License-Identifier: BSD-3-Clause
"""Moving numbers from one layout to another."""

from __future__ import annotations

from ....program.ir import Operand, contiguous_strides
from ..kernels import scalar, transpose
from ..kernels.pointwise import Layout, collapse
from ..selection import Selection


def emit_move(s: Selection, out: Operand, x: Operand) -> None:
    """out = x, of equal sizes, without broadcasting. Both are BF16 in DRAM."""
    layout = collapse(Layout(out.sizes, (out.strides, x.strides)))
    if turned := transpose.plan(layout.sizes, *layout.strides):
        for turn, words, o_start, x_start in turned:
            s.call(transpose.build, turn, {**words, "o": s.address(out, o_start), "x": s.address(x, x_start)})
        return
    if layout.sizes == (1,) or (len(layout.sizes) == 1 and layout.strides == ((1,), (1,))):
        n = layout.sizes[0]
        calls = []
        for start, sizes in (
            (0, (n // 1024, 32, 32)),
            (n // 1024 * 1024, (n % 1024 // 32, 32)),
            (n // 32 * 32, (n % 32,)),
        ):
            if 0 not in sizes:
                steps = contiguous_strides(sizes)
                calls += [(v, w, o + start, i + start) for v, w, o, i in scalar.plan_copy(sizes, steps, steps)]
    else:
        calls = scalar.plan_copy(layout.sizes, *layout.strides)
    for variant, words, o_start, x_start in calls:
        s.call(scalar.build_copy, variant, {**words, "o": s.address(out, o_start), "x": s.address(x, x_start)})
