# SPDX-License-Identifier: BSD-3-Clause
"""Reads through index tensors: embedding, index_select, gather, advanced indexing."""

from __future__ import annotations

from math import prod

import torch

from torch_atalla.driver.dtypes import ALL
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ...program.layouts import dense_meta
from ...program.sizes import SIZE_OF_DATA
from ..context import LoweringContext, Value
from ..pointwise.pointwise import masked_fill
from ..registry import lowers

_INDEX_DTYPES = (torch.int32, torch.int64)
_MASK_DTYPES = (torch.bool, torch.uint8)


def check_index(index: Value) -> None:
    if index.dtype not in _INDEX_DTYPES:
        raise NotNativeError(f"index dtype {dtype_name(index.dtype)} not taken")


@lowers("embedding.default", dtypes=ALL, operands=ALL)
def embedding(
    ctx: LoweringContext, node: torch.fx.Node, *, weight: Value, indices: Value, **_: object
) -> Value:  # padding_idx and its kin concern gradients only
    check_index(indices)
    count, width = prod(indices.shape), weight.shape[1]
    out = ctx.empty((count, width), weight.dtype)
    ctx.launch("index_select", [out], [weight, ctx.reshape(indices, (count,))], out.dtype, dim=0)
    return out.view(out.meta.view((*indices.shape, width)))


@lowers("index_select.default", dtypes=ALL, operands=ALL)
def index_select(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value) -> Value:
    check_index(index)
    if self.ndim == 0:
        raise NotNativeError("a 0-d input is not taken")
    out = ctx.empty(node.meta["val"].shape, self.dtype)
    ctx.launch("index_select", [out], [self, ctx.reshape(index, (prod(index.shape),))], out.dtype, dim=dim % self.ndim)
    return out


@lowers("gather.default", dtypes=ALL, operands=ALL)
def gather(
    ctx: LoweringContext, node: torch.fx.Node, *, self: Value, dim: int, index: Value, sparse_grad: bool
) -> Value:
    check_index(index)
    if self.ndim == 0 or index.ndim == 0:
        raise NotNativeError("a 0-d operand is not taken")
    out = ctx.empty(index.shape, self.dtype)
    ctx.launch("gather", [out], [self, index], out.dtype, dim=dim % self.ndim)
    return out


@lowers("index.Tensor", dtypes=ALL, operands=ALL)
def index(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, indices: list[Value | None]) -> Value:
    given, dims, first, order = _index_operands(self, indices)
    source = self if order is None else self.view(self.meta.permute(order))
    out = ctx.empty(node.meta["val"].shape, self.dtype)
    ctx.launch("index", [out], [source, *given], out.dtype, count=len(dims), first_dim=first)
    return out


@lowers("index_put.default", "_unsafe_index_put.default", dtypes=ALL, operands=ALL)
def index_put(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    self: Value,
    indices: list[Value | None],
    values: Value,
    accumulate: bool,
) -> Value:
    """A copy, of which the places named by the indices are written; one value under a mask fills it."""
    mask = None if accumulate else _only_mask(self, indices)
    if mask is not None and all(isinstance(size, int) and size == 1 for size in values.shape):
        value = values.view(values.meta.view(()))
        return masked_fill(ctx, node, self, mask, value.expand(self.shape))
    given, dims, first, order = _index_operands(self, indices)
    out = ctx.new_value(dense_meta(self.meta))
    ctx.copy(out, self)
    target = out if order is None else out.view(out.meta.permute(order))
    picked = (*target.shape[:first], *given[0].shape, *target.shape[first + len(dims) :])
    values = values.expand(picked)
    ctx.launch(
        "index_put",
        [target],
        [values, *given],
        out.dtype,
        count=len(dims),
        first_dim=first,
        combine="add" if accumulate else "assign",
        wrap_negative=True,
    )
    return out


def _only_mask(self: Value, indices: list[Value | None]) -> Value | None:
    """If a mask is all that indexes: that mask, broadcast."""
    given = [(dim, item) for dim, item in enumerate(indices) if item is not None]
    if len(given) != 1 or given[0][1].dtype != torch.bool:
        return None
    dim, mask = given[0]
    for _ in range(self.ndim - dim - mask.ndim):
        mask = mask.unsqueeze(mask.ndim)
    return mask.expand(self.shape)


def _index_operands(
    self: Value, indices: list[Value | None]
) -> tuple[list[Value], list[int], int, tuple[int, ...] | None]:
    """The index tensors, broadcast; the dimensions that they index; the first of them, after the permutation (None: as
    it is) that puts dimensions which are not adjacent first, where upstream puts the result's."""
    given = [(dim, item) for dim, item in enumerate(indices) if item is not None]
    for _, item in given:
        if item.dtype in _MASK_DTYPES:
            raise NotNativeError(SIZE_OF_DATA)
        check_index(item)
    if len(given) > 10:
        raise NotNativeError(f"{len(given)} index tensors; the chip takes at most 10")
    dims = [dim for dim, _ in given]
    first, order = dims[0], None
    if dims[-1] - first != len(dims) - 1:
        first, order = 0, (*dims, *(dim for dim in range(self.ndim) if dim not in dims))
    shape = torch.broadcast_shapes(*(item.shape for _, item in given))
    return [item.expand(tuple(shape)) for _, item in given], dims, first, order


@lowers("repeat_interleave.Tensor")
def repeat_interleave(
    ctx: LoweringContext, node: torch.fx.Node, *, repeats: Value, output_size: int | None = None
) -> Value:
    """Each index as often as `repeats` says; how many there are must not depend on the data."""
    check_index(repeats)
    ends = ctx.empty(repeats.shape, torch.int64)
    ctx.launch("cumsum", [ends], [repeats], torch.int64, dim=0)
    out = ctx.result_of(node)
    ctx.launch("repeat_interleave", [out], [ends], out.dtype)
    return out
