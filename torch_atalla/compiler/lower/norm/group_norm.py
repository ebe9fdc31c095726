# SPDX-License-Identifier: BSD-3-Clause
"""Group norm: a group is a row of a contiguous tensor, whose statistics are those of a channel."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import FLOATING
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers, reads


@lowers("native_group_norm.default", dtypes=FLOATING)
def native_group_norm(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Value, Value | None, Value | None]:
    wide, stored = statistics_dtypes(input, weight, bias)
    image = ctx.contiguous(input)
    channels = C // group
    mean, rstd = (ctx.empty((N * group,), wide) for _ in range(2))
    rows = image.view(image.meta.view(1, N * group, channels * HxW))
    ctx.launch("channel_norm.statistics", [mean, rstd, None, None], [rows], wide, eps=eps)

    out = ctx.empty(input.shape, input.dtype)
    places = [value.view(value.meta.view(N, group, channels, HxW)) for value in (out, image)]
    statistics = [value.view(value.meta.view(N, group, 1).expand(N, group, channels)) for value in (mean, rstd)]
    parameters = [
        None if value is None else value.view(value.meta.view(1, group, channels).expand(N, group, channels))
        for value in (weight, bias)
    ]
    ctx.launch("channel_norm.apply", [places[0]], [places[1], *statistics, *parameters], wide)
    given = [ctx.cast(value, stored) if reads(node, k) else None for k, value in ((1, mean), (2, rstd))]
    found = [None if value is None else value.view(value.meta.view(N, group)) for value in given]
    return out, found[0], found[1]


def check_parameter_dtypes(input: Value, *parameters: Value | None) -> None:
    """Raise NotNativeError for a parameter that has neither the input's dtype nor, of an input of half precision,
    float32: eager mode refuses it."""
    taken = {input.dtype} | ({torch.float32} if input.dtype in (torch.float16, torch.bfloat16) else set())
    for value in parameters:
        if value is not None and value.dtype not in taken:
            raise NotNativeError(f"an input of {dtype_name(input.dtype)} with a parameter of {dtype_name(value.dtype)}")


def statistics_dtypes(input: Value, *parameters: Value | None) -> tuple[torch.dtype, torch.dtype]:
    """In which statistics are computed, and in which they are given: parameters may be float32 where the input is of
    half precision."""
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    mixed = any(value is not None and value.dtype == wide for value in parameters)
    return wide, wide if mixed else input.dtype
