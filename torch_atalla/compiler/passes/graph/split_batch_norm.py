# SPDX-License-Identifier: BSD-3-Clause
"""Takes a batch norm with stored statistics apart: (x - mean) * factor + bias, where the factor is a constant.

Then it joins what stands around it: the convolution before it ends with all three. The kernel `channel_norm.apply`
computes the same in the same order: rstd = 1 / sqrt(variance + eps) in float64, rounded to float32, times the weight
in float32. So no bit changes; weight and variance can no longer be replaced by name.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from ..pass_result import PassResult
from .matching import is_tensor, new_constant, new_node, new_view, reads_first_alone, replace_first_result, value

aten = torch.ops.aten


def split_batch_norm(captured: Captured) -> PassResult:
    split = []
    op = aten._native_batch_norm_legit_no_training.default
    for node in captured.graph.find_nodes(op="call_function", target=op):
        if _may_split(captured, node):
            _split(captured, node)
            split.append(node.name)
    return PassResult("split_batch_norm", tuple(split))


def _may_split(captured: Captured, node: torch.fx.Node) -> bool:
    """Float32 throughout: a 16-bit result would be rounded after each step."""
    args: Any = node.args
    source, *parameters = args[:5]
    if not reads_first_alone(node):
        return False
    if not is_tensor(source) or value(source).dtype != torch.float32 or value(source).ndim < 2:
        return False
    if not value(source).is_contiguous() or parameters[2] is None or parameters[3] is None:
        return False
    given: Any = [arg for arg in parameters if arg is not None]
    if parameters[1] is None:  # then the kernel still adds 0, which turns -0 into 0
        return False
    return all(arg.name in captured.constants and value(arg).dtype == torch.float32 for arg in given)


def _split(captured: Captured, node: torch.fx.Node) -> None:
    args: Any = node.args
    source, weight, bias, mean, variance, _, eps = args
    sources: Any = [captured.constants[arg.name] for arg in (weight, variance) if isinstance(arg, torch.fx.Node)]
    made_of = frozenset[str]().union(*(constant.made_of | {constant.fqn} for constant in sources)) - {""}
    like = value(source)
    channels = [-1] + [1] * (like.ndim - 2)

    def step(op: torch._ops.OpOverload, left: torch.fx.Node, right: torch.fx.Node) -> torch.fx.Node:
        return new_node(captured, op, (left, right), {}, node, like)

    def per_channel(arg: torch.fx.Node) -> torch.fx.Node:
        return new_view(captured, aten.view.default, arg, channels)

    factor = (captured.constants[variance.name].tensor.detach().double() + eps).sqrt().reciprocal().float()
    if weight is not None:
        factor = factor * captured.constants[weight.name].tensor.detach()
    with captured.graph.inserting_before(node):
        factors = new_constant(captured, f"{node.name}_factor", factor, made_of)
        result = step(aten.sub.Tensor, source, per_channel(mean))
        result = step(aten.mul.Tensor, result, per_channel(factors))
        result = step(aten.add.Tensor, result, per_channel(bias))
    replace_first_result(captured, node, result)
