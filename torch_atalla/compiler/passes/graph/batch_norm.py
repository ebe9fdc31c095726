# SPDX-License-Identifier: BSD-3-Clause
"""Batch norm with stored statistics becomes part of what stands around it.

fold_batch_norm gives the convolution before it other weights and another bias. The factors are computed in float64 and
rounded once. Results differ from eager mode by rounding, so the pass belongs to `optimize="fast"`.

split_batch_norm takes it apart: (x - mean) * factor + bias, where the factor is a constant. Then it joins what stands
around it: the convolution before it ends with all three. The kernel `channel_norm.apply` computes the same in the same
order: rstd = 1 / sqrt(variance + eps) in float64, rounded to float32, times the weight in float32. So no bit changes;
weight and variance can no longer be replaced by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch

from ...capture.capture import Captured
from .matching import (
    is_tensor,
    new_constant,
    new_node,
    new_view,
    node_pass,
    reads_first_alone,
    replace_first_result,
    value,
)

aten = torch.ops.aten
_BATCH_NORM = aten._native_batch_norm_legit_no_training.default


def _are_constants(captured: Captured, given: Iterable[Any]) -> bool:
    return all(arg is None or arg.name in captured.constants for arg in given)


def _names(captured: Captured, given: Iterable[Any]) -> frozenset[str]:
    """Of the parameters and buffers that went into these constants."""
    sources = [captured.constants[arg.name] for arg in given if arg is not None]
    return frozenset[str]().union(*(constant.made_of | {constant.fqn} for constant in sources)) - {""}


def _tensor(captured: Captured, arg: Any) -> torch.Tensor:
    return captured.constants[arg.name].tensor.detach()


def _known(captured: Captured, node: torch.fx.Node) -> bool:
    """Whether statistics and parameters are constants, and nothing reads other results than the first."""
    given: Any = node.args[1:5]
    return reads_first_alone(node) and None not in given[2:] and _are_constants(captured, given)


@node_pass(_BATCH_NORM)
def fold_batch_norm(captured: Captured, node: torch.fx.Node) -> bool:
    source, weight, bias, mean, variance, _, eps = cast(Any, node.args)
    if not _known(captured, node) or getattr(source, "target", None) is not aten.convolution.default:
        return False
    args: Any = source.args
    if len(source.users) != 1 or args[6]:  # transposed: channels stand elsewhere in the weight
        return False
    if not _are_constants(captured, args[1:3]):
        return False

    def wide(arg: Any, default: float) -> torch.Tensor:
        return torch.full((1,), default, dtype=torch.float64) if arg is None else _tensor(captured, arg).double()

    factor = wide(weight, 1) / (wide(variance, 1) + eps).sqrt()
    kernel, dtype = wide(args[1], 0), args[1].meta["val"].dtype
    new_weight = (kernel * factor.view(-1, *[1] * (kernel.ndim - 1))).to(dtype)
    new_bias = ((wide(args[2], 0) - wide(mean, 0)) * factor + wide(bias, 0)).to(dtype)
    names = _names(captured, (*args[1:3], weight, bias, mean, variance))
    with captured.graph.inserting_before(source):
        nodes = [
            new_constant(captured, f"{source.name}_{what}", tensor, names)
            for what, tensor in (("folded_weight", new_weight), ("folded_bias", new_bias))
        ]
    source.args = (args[0], *nodes, *args[3:])
    replace_first_result(captured, node, source)
    return True


@node_pass(_BATCH_NORM)
def split_batch_norm(captured: Captured, node: torch.fx.Node) -> bool:
    """Float32 throughout: a 16-bit result would be rounded after each step. Without a bias the kernel still adds 0,
    which turns -0 into 0."""
    source, weight, bias, mean, variance, _, eps = cast(Any, node.args)
    if not _known(captured, node):
        return False
    given = [source, *(arg for arg in (weight, bias, mean, variance) if arg is not None)]
    if not is_tensor(source) or any(value(arg).dtype != torch.float32 for arg in given):
        return False
    if bias is None or value(source).ndim < 2 or not value(source).is_contiguous():
        return False
    channels = [-1] + [1] * (value(source).ndim - 2)
    factor = (_tensor(captured, variance).double() + eps).sqrt().reciprocal().float()
    if weight is not None:
        factor = factor * _tensor(captured, weight)
    names = _names(captured, (weight, variance))
    result = source
    with captured.graph.inserting_before(node):
        factors = new_constant(captured, f"{node.name}_factor", factor, names)
        for op, operand in ((aten.sub.Tensor, mean), (aten.mul.Tensor, factors), (aten.add.Tensor, bias)):
            seen = new_view(captured, aten.view.default, operand, channels)
            result = new_node(captured, op, (result, seen), {}, node, value(source))
    replace_first_result(captured, node, result)
    return True
