# SPDX-License-Identifier: BSD-3-Clause
"""Pooling: `pool.*`, whose operands are [n, c, d, h, w]."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.dtypes import FLOATING, INTEGER
from torch_atalla.loadable.errors import NotNativeError

from ..context import LoweringContext, Value
from ..registry import lowers, reads
from .images import for_each_dimension, image


def _with_indices(ctx: LoweringContext, node: torch.fx.Node) -> tuple[Value, Value | None]:
    """The results of a maximum. The indices are stored only where they are read."""
    metas = [torch.empty_like(meta, device="meta") for meta in node.meta["val"]]
    return ctx.new_value(metas[0]), ctx.new_value(metas[1]) if reads(node, 1) else None


def _windows(kernel_size: list[int], stride: list[int], padding: list[int], spatial: int) -> dict[str, Any]:
    """The parameters that both kernels have."""
    given = {"kernel": (kernel_size, 1), "stride": (stride or kernel_size, 1), "padding": (padding, 0)}
    return {name: for_each_dimension(values, spatial, absent) for name, (values, absent) in given.items()}


def _max_pool(spatial: int) -> Any:
    def rule(
        ctx: LoweringContext,
        node: torch.fx.Node,
        *,
        self: Value,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        ceil_mode: bool,
    ) -> tuple[Value, Value | None]:
        out, indices = _with_indices(ctx, node)
        places = [image(out, spatial), None if indices is None else image(indices, spatial)]
        ctx.launch(
            "pool.max",
            places,
            [image(self, spatial)],
            self.dtype,
            **_windows(kernel_size, stride, padding, spatial),
            dilation=for_each_dimension(dilation, spatial, 1),
        )
        return out, indices

    return rule


def _avg_pool(spatial: int) -> Any:
    def rule(
        ctx: LoweringContext,
        node: torch.fx.Node,
        *,
        self: Value,
        kernel_size: list[int],
        stride: list[int],
        padding: list[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        out = ctx.result_of(node)
        ctx.launch(
            "pool.average",
            [image(out, spatial)],
            [image(self, spatial)],
            out.dtype,
            **_windows(kernel_size, stride, padding, spatial),
            count_padding=count_include_pad,
            divisor=divisor_override or 0,
        )
        return out

    return rule


def _adaptive_avg_pool(spatial: int) -> Any:
    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, output_size: Any) -> Value:
        _check_rank(self, spatial)
        out = ctx.result_of(node)
        ctx.launch("pool.adaptive_average", [image(out, spatial)], [image(self, spatial)], out.dtype)
        return out

    return rule


def _adaptive_max_pool(spatial: int) -> Any:
    def rule(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, output_size: Any) -> tuple[Value, Value | None]:
        _check_rank(self, spatial)
        out, indices = _with_indices(ctx, node)
        places = [image(out, spatial), None if indices is None else image(indices, spatial)]
        ctx.launch("pool.adaptive_max", places, [image(self, spatial)], out.dtype)
        return out, indices

    return rule


def _check_rank(value: Value, spatial: int) -> None:
    if value.ndim not in (spatial + 1, spatial + 2):
        raise NotNativeError(f"an image of rank {value.ndim}")


_INT64 = frozenset({torch.int64})
_FULL = frozenset({torch.float32, torch.float64})  # upstream averages volumes in these alone

lowers("max_pool2d_with_indices.default", dtypes=FLOATING | INTEGER)(_max_pool(2))
lowers("max_pool3d_with_indices.default", dtypes=FLOATING | INTEGER)(_max_pool(3))
lowers("avg_pool2d.default", dtypes=FLOATING | _INT64)(_avg_pool(2))
lowers("avg_pool3d.default", dtypes=_FULL | _INT64)(_avg_pool(3))
lowers("_adaptive_avg_pool2d.default", dtypes=FLOATING)(_adaptive_avg_pool(2))
lowers("_adaptive_avg_pool3d.default", dtypes=FLOATING)(_adaptive_avg_pool(3))
lowers("adaptive_max_pool2d.default", dtypes=FLOATING)(_adaptive_max_pool(2))
lowers("adaptive_max_pool3d.default", dtypes=FLOATING)(_adaptive_max_pool(3))
