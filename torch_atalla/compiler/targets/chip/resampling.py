# SPDX-License-Identifier: BSD-3-Clause
"""The taps of resampling: which places of a dimension a place of the result takes, and their weights."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import torch

from ...program.ir import Launch, Operand
from .kernels.pointwise import Unsupported

aten = torch.ops.aten
Taps = list[tuple[int, float]]  # of a place of the result: places of the input, and their weights


def taps(launch: Launch, kind: str, first: int, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """For each place of the result along spatial dimension k, the places of the input that it takes and their weights.

    kind: nearest, linear, cubic, linear_aa or cubic_aa. first: the dimension of the operands that is k = 0. All places
    have equally many taps. As upstream, they include places of weight 0, since an infinity or a NaN there counts
    (csrc/sim/kernels/image/resample_taps.h).
    """
    out, x = launch.outputs[0], launch.inputs[0]
    assert isinstance(out, Operand) and isinstance(x, Operand)
    size, target = x.sizes[first + k], out.sizes[first + k]
    scale = (*launch.parameter("scale"), 0.0, 0.0, 0.0)[k] or None
    if size == target == 1 or size == target and kind not in ("linear", "cubic"):
        lines: list[Taps] = [[(i, 1.0)] for i in range(target)]
    elif kind == "nearest":
        op = aten._upsample_nearest_exact1d if "exact" in launch.parameter("mode") else aten.upsample_nearest1d
        places = op(torch.arange(size, dtype=torch.float64).view(1, 1, size), [target], scale)
        lines = [[(int(i), 1.0)] for i in places.flatten()]
    elif kind.endswith("_aa"):
        lines = _antialiased(kind, size, target, bool(launch.parameter("align_corners")), scale)
        _fill_up(lines, x.dtype.is_floating_point)
    elif kind in ("linear", "cubic"):
        lines = _plain(kind, size, target, bool(launch.parameter("align_corners")), scale)
    else:
        raise Unsupported(f"resampling by {kind}")
    return [[place for place, _ in line] for line in lines], [[weight for _, weight in line] for line in lines]


def _plain(kind: str, size: int, target: int, align: bool, scale: float | None) -> list[Taps]:
    if kind == "linear" and size == target:
        return [[(i, 1.0), (i, 0.0)] for i in range(target)]
    step = _float32((size - 1) / max(target - 1, 1) if align else 1 / scale if scale else size / target)
    lines = []
    for i in range(target):
        # In float32 with one rounding, as upstream's kernels are compiled: a weight of 0 makes an infinity NaN.
        position = _float32(step * i if align else Fraction(step) * Fraction(2 * i + 1, 2) - Fraction(1, 2))
        position = max(position, 0.0) if kind == "linear" else position
        place = min(floor(position), size - 1)
        share = min(max(position - place, 0.0), 1.0)
        near = [1 - share, share] if kind == "linear" else cubic(share)
        begin = place if kind == "linear" else place - 1
        lines.append([(min(max(begin + j, 0), size - 1), weight) for j, weight in enumerate(near)])
    return lines


def _float32(x: float | Fraction) -> float:
    return float(torch.tensor(float(x), dtype=torch.float32))


def cubic(t: Any) -> list[Any]:
    """Keys' weights of the four places around a position that is t behind the second; of a number, or of a value on the
    scalar core."""

    def near(x: Any) -> Any:
        return (x * 1.25 - 2.25) * x * x + 1.0

    def far(x: Any) -> Any:
        return ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def _antialiased(kind: str, size: int, target: int, align: bool, scale: float | None) -> list[Taps]:
    """What upstream's own resampling of the unit vectors gives."""
    ops = {"linear_aa": aten._upsample_bilinear2d_aa, "cubic_aa": aten._upsample_bicubic2d_aa}
    if kind not in ops:
        raise Unsupported(f"resampling by {kind}")
    # Two columns: with one, upstream's antialiased resampling gives the first row everywhere.
    columns = torch.eye(size, dtype=torch.float64).view(1, size, size, 1).expand(1, size, size, 2).contiguous()
    marks = torch.where(columns == 1, torch.nan, 0.0)  # which a weight of 0 keeps
    matrix, marked = (ops[kind](x, [target, 2], align, scale, None)[0, :, :, 0] for x in (columns, marks))
    taken = marked.isnan()  # [i, o]: input i in result o
    return [[(i, float(matrix[i, o])) for i in torch.nonzero(taken[:, o]).flatten().tolist()] for o in range(target)]


def _fill_up(lines: list[Taps], halve: bool) -> None:
    """Repeats last taps until all lines are as long: with a weight of 0, or halved, so that an infinity stays one."""
    most = max(map(len, lines))
    for line in lines:
        while len(line) < most:
            place, weight = line.pop()
            line += [(place, weight / 2)] * 2 if halve else [(place, weight), (place, 0.0)]
