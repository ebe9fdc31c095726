# SPDX-License-Identifier: BSD-3-Clause
"""Folds a batch norm with stored statistics into the convolution before it: other weights, another bias.

The factors are computed in float64 and rounded once. Results differ from eager mode by rounding, so the pass belongs to
`optimize="fast"`.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from ..pass_result import PassResult
from .matching import new_constant, reads_first_alone, replace_first_result

aten = torch.ops.aten


def fold_batch_norm(captured: Captured) -> PassResult:
    folded = []
    op = aten._native_batch_norm_legit_no_training.default
    for node in captured.graph.find_nodes(op="call_function", target=op):
        convolution, *parameters = node.args[:5]
        if not _may_fold(captured, node, convolution, parameters):
            continue
        _fold(captured, node, convolution, parameters, node.args[6])
        folded.append(node.name)
    return PassResult("fold_batch_norm", tuple(folded))


def _may_fold(captured: Captured, node: torch.fx.Node, convolution: Any, parameters: list) -> bool:
    if not reads_first_alone(node):
        return False
    if not isinstance(convolution, torch.fx.Node) or convolution.target is not aten.convolution.default:
        return False
    if len(convolution.users) != 1 or convolution.args[6]:  # transposed: channels stand elsewhere in the weight
        return False
    if parameters[2] is None or parameters[3] is None:
        return False
    constants = [arg for arg in (*convolution.args[1:3], *parameters) if arg is not None]
    return all(arg.name in captured.constants for arg in constants)


def _fold(captured: Captured, node: torch.fx.Node, convolution: torch.fx.Node, parameters: list, eps: float) -> None:
    def value(arg: Any, default: float) -> torch.Tensor:
        if arg is None:
            return torch.full((1,), default, dtype=torch.float64)
        return captured.constants[arg.name].tensor.detach().double()

    args: Any = convolution.args
    weight, bias = value(args[1], 0), value(args[2], 0)
    gamma, beta = value(parameters[0], 1), value(parameters[1], 0)
    mean, variance = value(parameters[2], 0), value(parameters[3], 1)
    factor = gamma / (variance + eps).sqrt()
    dtype = args[1].meta["val"].dtype
    new_weight = (weight * factor.view(-1, *[1] * (weight.ndim - 1))).to(dtype)
    new_bias = ((bias - mean) * factor + beta).to(dtype)
    sources = [captured.constants[arg.name] for arg in (*args[1:3], *parameters[:4]) if arg is not None]
    made_of = frozenset[str]().union(*(source.made_of | {source.fqn} for source in sources)) - {""}
    with captured.graph.inserting_before(convolution):
        nodes = [
            new_constant(captured, f"{convolution.name}_{what}", tensor, made_of)
            for what, tensor in (("folded_weight", new_weight), ("folded_bias", new_bias))
        ]
    convolution.args = (args[0], *nodes, *args[3:])
    replace_first_result(captured, node, convolution)
