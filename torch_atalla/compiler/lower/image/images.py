# SPDX-License-Identifier: BSD-3-Clause
"""Images as the kernels of pooling and resampling see them: [n, c, d, h, w], whatever the spatial dimensions."""

from __future__ import annotations

from ..context import Value


def image(value: Value, spatial: int) -> Value:
    """With batch and depth."""
    if value.ndim == spatial + 1:
        value = value.unsqueeze(0)
    for _ in range(3 - spatial):
        value = value.unsqueeze(2)
    return value


def for_each_dimension(values: list[int], spatial: int, absent: int) -> tuple[int, ...]:
    """A parameter of d, h, w: `values` holds one for all `spatial` dimensions, or one each."""
    given = list(values) * (spatial if len(values) == 1 else 1)
    return tuple([absent] * (3 - spatial) + given)
