# SPDX-License-Identifier: BSD-3-Clause
"""Layer norm and RMS norm in the spellings of models become one launch each.

    (x - mean) * rsqrt(variance + eps) * weight + bias      variance: var(correction=0), or the mean of (x - mean)^2
    x * rsqrt(mean(x^2) + eps) * weight                     (Llama, T5, nn.RMSNorm)

with a division by sqrt in place of rsqrt, with casts to float32 and back around any part, weight and bias optional. The
kernel sums in another order and rounds 16-bit values once, so the pass belongs to `optimize="fast"`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch

from ...capture.capture import Captured
from ...program.call_arguments import arguments_of
from .matching import (
    are_private,
    argument,
    is_floating_cast,
    is_tensor,
    new_node,
    node_pass,
    number,
    only_user,
    operands,
    shape,
    value,
)

aten = torch.ops.aten


@dataclass
class _Norm:
    source: torch.fx.Node
    centered: bool
    eps: float
    inner: list[torch.fx.Node] = field(default_factory=list)  # all that the kernel replaces
    weight: torch.fx.Node | None = None
    bias: torch.fx.Node | None = None


@node_pass(aten.mul.Tensor, aten.div.Tensor)
def fuse_norms(captured: Captured, node: torch.fx.Node) -> bool | str:
    norm = _match(captured, node)
    if norm is None:
        return False
    result = _extend(norm, node)
    if not are_private(norm.inner, result):
        return False
    _skip_cast(norm)
    _replace(captured, norm, result)
    return result.name


def _match(captured: Captured, node: torch.fx.Node) -> _Norm | None:
    """The norm whose last step, before weight and bias, is `node`."""
    if not is_tensor(node) or not value(node).is_floating_point() or value(node).ndim == 0:
        return None
    if type(value(node).shape[-1]) is not int:
        return None
    divides = node.target is aten.div.Tensor
    pairs: list[tuple[Any, Any]] = [(argument(node), node.args[1])] if divides else operands(node)
    for scaled, factor in pairs:
        inner = [node]
        variance = _under_root(factor, divides, inner)
        if not is_tensor(scaled) or variance is None or variance.target is not aten.add.Tensor:
            continue
        inner.append(variance)
        for term, eps in operands(variance):
            constant = number(captured, eps)
            if constant is None or not isinstance(term, torch.fx.Node):
                continue
            norm = _of_variance(scaled, term, constant, inner)
            if norm is not None and shape(norm.source) == shape(node):
                return norm
    return None


def _under_root(node: Any, divides: bool, inner: list[torch.fx.Node]) -> torch.fx.Node | None:
    """v of 1 / sqrt(v) as a factor, or of sqrt(v) as a divisor."""
    if not isinstance(node, torch.fx.Node):
        return None
    inner.append(node)
    if node.target is aten.pow.Tensor_Scalar and node.args[1] == (0.5 if divides else -0.5):
        return argument(node)
    if divides:
        return argument(node) if node.target is aten.sqrt.default else None
    if node.target is aten.rsqrt.default:
        return argument(node)
    return _under_root(argument(node), True, inner) if node.target is aten.reciprocal.default else None


def _of_variance(scaled: Any, term: torch.fx.Node, eps: float, inner: list[torch.fx.Node]) -> _Norm | None:
    last = value(scaled).ndim - 1
    inner = [*inner, term]
    if _reduces_last(term, aten.mean.dim, last):
        squares = argument(term)
        base = _squared(squares)
        if base is None:
            return None
        inner.append(squares)
        if base is not scaled:
            # Half-precision values may be widened for the sum alone.
            if not is_floating_cast(base) or argument(base) is not scaled:
                return None
            return _Norm(scaled, False, eps, [*inner, base])
        source = _centered(base, last, inner)
        return _Norm(base, False, eps, inner) if source is None else _Norm(source, True, eps, inner)
    if term.target is operator.getitem and term.args[1] == 0:
        term = argument(term)
        inner.append(term)
        if not _reduces_last(term, aten.var_mean.correction, last):
            return None
    elif not _reduces_last(term, aten.var.correction, last):
        return None
    source = _centered(scaled, last, inner)
    return _Norm(source, True, eps, inner) if source is not None and source is argument(term) else None


def _centered(node: torch.fx.Node, last: int, inner: list[torch.fx.Node]) -> torch.fx.Node | None:
    """x of x - mean(x); takes the nodes into `inner`."""
    if node.target is not aten.sub.Tensor or node.kwargs.get("alpha", 1) != 1:
        return None
    source, mean = node.args
    if not is_tensor(source) or not isinstance(mean, torch.fx.Node):
        return None
    if mean.target is operator.getitem and mean.args[1] == 1:
        pair: Any = argument(mean)
        if not _reduces_last(pair, aten.var_mean.correction, last) or argument(pair) is not source:
            return None
    elif not _reduces_last(mean, aten.mean.dim, last) or argument(mean) is not source:
        return None
    inner += [node, mean]
    return source


def _squared(node: Any) -> Any:
    if not is_tensor(node):
        return None
    if node.target is aten.pow.Tensor_Scalar and node.args[1] == 2:
        return argument(node)
    return argument(node) if node.target is aten.mul.Tensor and argument(node) is node.args[1] else None


def _reduces_last(node: torch.fx.Node, op: torch._ops.OpOverload, last: int) -> bool:
    """A reduction of the last dimension that keeps it, in its input's dtype; of variances, the one of all elements."""
    if node.target is not op:
        return False
    given = arguments_of(node)
    if given.get("dtype") not in (None, value(argument(node)).dtype) or given.get("correction", 0) != 0:
        return False
    return list(given["dim"] or ()) in ([-1], [last]) and given["keepdim"] is True


def _extend(norm: _Norm, node: torch.fx.Node) -> torch.fx.Node:
    """Takes in casts, weight and bias that follow; gives the last node."""
    width = value(node).shape[-1]
    while True:
        user = only_user(node)
        if user is None:
            return node
        if not is_floating_cast(user):
            if user.target is aten.mul.Tensor and norm.weight is None and norm.bias is None:
                norm.weight = other = _per_column(user, node, width)
            elif user.target is aten.add.Tensor and norm.centered and norm.bias is None:
                norm.bias = other = _per_column(user, node, width)
            else:
                return node
            if other is None:
                return node
        norm.inner.append(user)
        node = user


def _per_column(user: torch.fx.Node, node: torch.fx.Node, width: int) -> torch.fx.Node | None:
    for first, other in operands(user):
        if first is node and is_tensor(other) and shape(other) == (width,) and value(other).is_floating_point():
            return other
    return None


def _skip_cast(norm: _Norm) -> None:
    """The kernel widens what it reads: a cast before it that nobody else reads is not needed."""
    source = norm.source
    if is_floating_cast(source) and value(source).dtype == torch.float32 and all(u in norm.inner for u in source.users):
        norm.source = argument(source)


def _replace(captured: Captured, norm: _Norm, result: torch.fx.Node) -> None:
    sizes = [value(result).shape[-1]]
    meta = torch.empty(value(result).shape, dtype=value(result).dtype, device="meta")
    with captured.graph.inserting_before(result):
        if norm.centered:
            args: tuple = (norm.source, sizes, norm.weight, norm.bias, norm.eps)
            node = new_node(captured, aten.layer_norm.default, args, {}, result, meta)
        else:
            args = (norm.source, sizes, norm.weight, norm.eps)
            node = new_node(captured, aten.rms_norm.default, args, {}, result, meta)
    result.replace_all_uses_with(node)
