# SPDX-License-Identifier: BSD-3-Clause
"""Conjugates and negatives, which upstream marks by a bit of the tensor and materialises later."""

from __future__ import annotations

import torch

from torch_atalla.driver.dtypes import ALL, COMPLEX

from ..program.layouts import dense_meta
from .context import LoweringContext
from .registry import lowers
from .value import Value


@lowers("_conj.default", dtypes=COMPLEX, operands=COMPLEX)
def conj(ctx: LoweringContext, node: torch.fx.Node, *, self: Value) -> Value:
    return _launch(ctx, "pointwise.conj_physical", self)


@lowers("_neg_view.default", dtypes=ALL, operands=ALL)
def neg_view(ctx: LoweringContext, node: torch.fx.Node, *, self: Value) -> Value:
    return _launch(ctx, "pointwise.neg", self)


@lowers("resolve_conj.default", "resolve_neg.default", dtypes=ALL, operands=ALL)
def resolve(ctx: LoweringContext, node: torch.fx.Node, *, self: Value) -> Value:
    return self


def _launch(ctx: LoweringContext, kernel: str, self: Value) -> Value:
    out = ctx.new_value(dense_meta(self.meta))
    ctx.launch(kernel, [out], [self], out.dtype)
    return out
