# SPDX-License-Identifier: BSD-3-Clause
"""The taps of resampling: which places of a dimension a place of the result takes, and their weights."""

from __future__ import annotations

import torch

from ...program.ir import Launch, Operand
from .kernels.pointwise import Unsupported


def taps(launch: Launch, kind: str, first: int, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """For each place of the result along spatial dimension k, the places of the input that it takes and their weights:
    what upstream's own resampling of the unit vectors gives.

    kind: nearest, linear, cubic, linear_aa or cubic_aa. first: the dimension of the operands that is k = 0. All places
    have equally many taps, of which the last ones may repeat with a weight of 0.
    """
    out, x = launch.outputs[0], launch.inputs[0]
    assert isinstance(out, Operand) and isinstance(x, Operand)
    size, target = x.sizes[first + k], out.sizes[first + k]
    if size == target and kind not in ("cubic",):
        return [[i] for i in range(target)], [[1.0]] * target
    scale = (*launch.parameter("scale"), 0.0, 0.0, 0.0)[k] or None
    unit = torch.eye(size, dtype=torch.float64)
    aten = torch.ops.aten
    if kind == "nearest":
        mode = launch.parameter("mode")
        op = aten._upsample_nearest_exact1d if "exact" in mode else aten.upsample_nearest1d
        weights = op(torch.arange(size, dtype=torch.float64).view(1, 1, size), [target], scale)
        return [[int(i)] for i in weights.flatten()], [[1.0]] * target
    align = bool(launch.parameter("align_corners"))
    if kind == "linear":
        matrix = aten.upsample_linear1d(unit.view(1, size, size), [target], align, scale)[0]
    else:
        ops = {
            "cubic": aten.upsample_bicubic2d,
            "linear_aa": aten._upsample_bilinear2d_aa,
            "cubic_aa": aten._upsample_bicubic2d_aa,
        }
        if kind not in ops:
            raise Unsupported(f"resampling by {kind}")
        # Two columns: with one, upstream's antialiased resampling gives the first row everywhere.
        columns = unit.view(1, size, size, 1).expand(1, size, size, 2).contiguous()
        matrix = ops[kind](columns, [target, 2], align, scale, None)[0, :, :, 0]
    # matrix[i, o]: the weight of input i in result o.
    places = [torch.nonzero(matrix[:, o]).flatten().tolist() for o in range(target)]
    most = max(map(len, places))
    weights_of = [[float(matrix[i, o]) for i in places[o]] for o in range(target)]
    return [p + [p[-1]] * (most - len(p)) for p in places], [w + [0.0] * (most - len(w)) for w in weights_of]
