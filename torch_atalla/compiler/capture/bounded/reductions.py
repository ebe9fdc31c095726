# SPDX-License-Identifier: BSD-3-Clause
"""Rules of ops that join all elements along a dimension: the padding is filled with what changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, prod
from typing import Any

import torch

from ...program.call_arguments import arguments_of
from ...program.support import overloads
from .rewrite import Node, Rewrite
from .table import RULES, again, args_of, decline, only, rule, value_of

aten = torch.ops.aten


def lowest(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else -inf if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> Any:
    return True if dtype == torch.bool else inf if dtype.is_floating_point else torch.iinfo(dtype).max


def reduced_dims(node: Node) -> list[int]:
    args = arguments_of(node)
    ndim = value_of(args["self"]).ndim
    given = args.get("dim")
    dims = list(range(ndim)) if given is None or given == [] else [given] if isinstance(given, int) else given
    return [dim % ndim for dim in dims] if ndim else []


def reduction(neutral: Callable[[torch.dtype], Any], nonempty: bool, rewrite: Rewrite, node: Node) -> Any:
    source = args_of(node)[0]
    dims = reduced_dims(node)
    if arguments_of(node).get("ord", 2) < 0:
        decline(rewrite, "a norm of negative order")
    if "arg" in str(node.target) and arguments_of(node)["dim"] is None:
        only(rewrite, source, (0,), "of which the places are numbered")
    if nonempty:
        for dim, expr in rewrite.extents(source).items():
            if dim in dims:
                rewrite.require(expr >= 1, "a reduction of no elements")
    return again(rewrite, node, self=rewrite.filled(source, dims, neutral(value_of(source).dtype)))


def _zero(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else 0


def _one(dtype: torch.dtype) -> Any:
    return True if dtype == torch.bool else 1


_SUMS = ("sum", "sum.dim_IntList", "linalg_vector_norm", "count_nonzero")
_TRUTHS = ("any", "any.dim", "any.dims", "_is_any_true")
_PRODUCTS = ("prod", "prod.dim_int", "all", "all.dim", "all.dims", "_is_all_true")
_SOFTMAX = ("_softmax", "_safe_softmax", "softmax.int", "_log_softmax", "log_softmax.int", "logsumexp")
_SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")  # padding comes behind what they join
RULES.update(dict.fromkeys(overloads(*_SCANS), again))
for _neutral, _nonempty, _names in (
    (_zero, False, (*_SUMS, *_TRUTHS)),
    (_one, False, _PRODUCTS),
    (lowest, False, _SOFTMAX),
    (lowest, True, ("amax", "max", "max.dim", "argmax")),
    (highest, True, ("amin", "min", "min.dim", "argmin")),
):
    RULES.update(dict.fromkeys(overloads(*_names), partial(reduction, _neutral, _nonempty)))


@rule(aten.mean.dim, aten.mean.default)
def mean(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    source, dims = args["self"], reduced_dims(node)
    if not set(dims) & rewrite.extents(source).keys():
        return again(rewrite, node)
    return _mean(rewrite, source, dims, bool(args.get("keepdim", False)), value_of(node).dtype)


def _mean(rewrite: Rewrite, source: Node, dims: list[int], keep: bool, dtype: torch.dtype) -> Node:
    if dtype not in (torch.float32, torch.float64):
        decline(rewrite, f"a mean over a count in {dtype}")
    total = rewrite.call(aten.sum.dim_IntList, rewrite.filled(source, dims, 0), dims, keep, dtype=dtype)
    return rewrite.call(aten.div.Tensor, total, _count(rewrite, source, dims))


def _count(rewrite: Rewrite, source: Node, dims: list[int]) -> Node:
    return rewrite.on_chip(prod(rewrite.expr(value_of(source).shape[dim]) for dim in dims))


@rule(aten.var.correction, aten.std.correction)
def deviation(rewrite: Rewrite, node: Node) -> Any:
    """Squares of the differences from the mean, which is computed first."""
    args = arguments_of(node)
    source, dims = args["self"], reduced_dims(node)
    if not set(dims) & rewrite.extents(source).keys():
        return again(rewrite, node)
    center = _mean(rewrite, source, dims, True, value_of(node).dtype)
    difference = rewrite.call(aten.sub.Tensor, rewrite.new(source), center)
    squares = rewrite.call(aten.mul.Tensor, difference, difference)
    mask = rewrite.invalid(source, dims)
    squares = rewrite.call(aten.masked_fill.Scalar, squares, mask, 0)
    total = rewrite.call(aten.sum.dim_IntList, squares, dims, bool(args["keepdim"]))
    correction = 1 if args["correction"] is None else args["correction"]
    count = rewrite.call(aten.sub.Tensor, _count(rewrite, source, dims), correction)
    variance = rewrite.call(aten.div.Tensor, total, rewrite.call(aten.clamp.default, count, 0))
    return variance if node.target is aten.var.correction else rewrite.call(aten.sqrt.default, variance)
