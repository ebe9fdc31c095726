# SPDX-License-Identifier: BSD-3-Clause
"""Floating-point operations of a node: upstream's formulas (torch.utils.flop_counter), 2 a multiply-add.

Only matrix products, convolutions and attention count, as everywhere in PyTorch; other ops have 0.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import optimization_hint
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten


# Products that upstream's table leaves out; of each, which tensor has the contracted dimension last.
_VECTORS = {aten.mv.default: 0, aten.addmv.default: 1, aten.dot.default: 0, aten.vdot.default: 0}


def node_flops(node: torch.fx.Node) -> int:
    if not isinstance(node.target, torch._ops.OpOverload):
        return 0
    args: Any = torch.fx.node.map_arg(node.args, lambda arg: arg.meta["val"])
    kwargs: Any = torch.fx.node.map_arg(node.kwargs, lambda arg: arg.meta["val"])
    if node.target is aten.linear.default:
        x, weight = args[:2]
        return _number(2 * x.numel() * (weight.shape[0] if weight.ndim == 2 else 1))
    if node.target is aten.scaled_dot_product_attention.default:
        query, key, value = args[:3]
        return _number(2 * prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1]))
    if node.target in _VECTORS:
        return _number(2 * node.meta["val"].numel() * _tensors(args)[_VECTORS[node.target]].shape[-1])
    if node.target in (aten._int_mm.default, aten.addbmm.default):
        left, right = _tensors(args)[-2:]
        return _number(2 * left.numel() * right.shape[-1])
    if node.target is torch.ops.atalla.int_convolution.default:
        x, weight, bias, _, *options = args
        return _number(flop_registry[aten.convolution](x, weight, bias, *options, out_val=node.meta["val"]))
    formula = flop_registry.get(node.target.overloadpacket)
    if formula is None:
        return 0
    try:
        return _number(formula(*args, **kwargs, out_val=node.meta["val"]))
    except (TypeError, ValueError):  # sizes that depend on data
        return 0


def _tensors(args: Any) -> list[torch.Tensor]:
    return [arg for arg in args if isinstance(arg, torch.Tensor)]


def _number(flops: int | torch.SymInt) -> int:
    """Of dynamic sizes those of the example inputs. Must not become a condition on them, as int() would make it."""
    if not isinstance(flops, torch.SymInt):
        return int(flops)
    return int(optimization_hint(flops, fallback=0))
