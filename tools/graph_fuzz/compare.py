# SPDX-License-Identifier: BSD-3-Clause
"""Comparing results: shapes, dtypes, strides, bits, and values within bounds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from .conditioning import Bounds, is_real_or_complex, wide


def forms(
    found: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    strides: bool = True,
    dense: bool = False,
    also: Sequence[tuple[int, ...] | None] = (),
) -> tuple[str, str] | None:
    """The first difference that is not one of values: (category, text). `dense`: strides count only where the expected
    ones leave no gap and no element has two places. `also`: strides that are right as well."""
    if len(found) != len(expected):
        return "count", f"{len(found)} results, expected {len(expected)}"
    for k, (a, b) in enumerate(zip(found, expected)):
        if a.dtype != b.dtype:
            return "dtype", f"result {k}: {a.dtype}, expected {b.dtype}"
        if a.shape != b.shape:
            return "shape", f"result {k}: shape {list(a.shape)}, expected {list(b.shape)}"
        counts = strides and b.numel() and not (dense and not is_non_overlapping_and_dense_or_false(b))
        if counts and a.stride() != b.stride() and not (k < len(also) and a.stride() == also[k]):
            return "layout", f"result {k}: strides {a.stride()}, expected {b.stride()}, shape {list(b.shape)}"
    return None


def sharing(values: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """(first value with the same memory, offset in it) of each."""
    seen: dict[int, int] = {}
    return [
        (seen.setdefault(value.untyped_storage().data_ptr(), k) if value.numel() else k, int(value.storage_offset()))
        for k, value in enumerate(values)
    ]


def bits(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str | None:
    """What differs when every bit counts; NaNs are alike."""
    for k, (a, b) in enumerate(zip(found, expected)):
        a, b = a.detach().cpu(), b.detach().cpu()
        same = _raw(a) == _raw(b)
        if is_real_or_complex(b):
            first, second = _real(a), _real(b)
            same |= first.isnan() & second.isnan()
        if not bool(same.all()):
            distance = (wide(a) - wide(b)).abs().nan_to_num(float("inf"))
            count = int((~same).sum())
            return f"result {k}: {count} of {same.numel()} differ, by up to {float(distance.max()):.3g}"
    return None


def _real(value: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(value.resolve_conj().contiguous()) if value.is_complex() else value.contiguous()


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _raw(value: torch.Tensor) -> torch.Tensor:
    real = _real(value)
    return real.view(_BITS[real.itemsize])


def close(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], factor: float = 4.0) -> bool:
    """Whether all values are equal up to a few roundings: a quick yes, never a no."""
    for a, b in zip(found, expected):
        first, second = wide(a.cpu()), wide(b)
        eps = torch.finfo(b.dtype).eps if is_real_or_complex(b) else 0.0
        if not torch.allclose(first, second, rtol=factor * eps, atol=0.0, equal_nan=True):
            return False
    return True


def values(
    found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], bounds: Sequence[Bounds], factor: float = 12.0
) -> tuple[str, str] | None:
    """The first difference beyond the bounds: (category, text)."""
    for k, (a, b, bound) in enumerate(zip(found, expected, bounds)):
        first, second = wide(a.cpu()), wide(b)
        both_nan = first.isnan() & second.isnan()
        special = (~torch.isfinite(first) | ~torch.isfinite(second)) & (first != second) & ~both_nan
        # An element that rounding moves by a hundredth of itself may lie beside a singularity, as log of a difference.
        unstable = torch.isfinite(second) & (bound.moved > 0.01 * second.abs())
        if bool((special & ~bound.undetermined & ~unstable).any()):
            return "nan", f"result {k}: NaNs or infinities at {int(special.sum())} other places"
        distance = torch.where(torch.isfinite(first) & torch.isfinite(second), (first - second).abs(), 0)
        wrong = (distance > bound.tolerance(b, factor)) & ~bound.undetermined
        if bool(wrong.any()):
            largest, scale = float(distance[wrong].max()), float(second[torch.isfinite(second)].abs().max())
            text = f"result {k}: {int(wrong.sum())} of {wrong.numel()} differ, by up to {largest:.3g}; largest value "
            return "values", f"{text}{scale:.3g}, rounding moves {float(bound.moved.max()):.3g}"
    return None
