# SPDX-License-Identifier: BSD-3-Clause
"""Puts channels innermost: the array contracts over lanes, so that a pixel's channels have to be neighbours.

Weights of two-dimensional convolutions change their order in memory; upstream's meta functions then give every result
behind them the same order, and a view that does not allow it becomes a copy when the graph is lowered.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from ...program.layouts import exact_meta
from ..pass_result import PassResult

aten = torch.ops.aten


def channels_innermost(captured: Captured) -> PassResult:
    """Changes constants and the graph's metadata in place. A graph without convolutions stays as it is."""
    changed = []
    for node in captured.graph.find_nodes(op="call_function", target=aten.convolution.default):
        constant = captured.constants.get(node.args[1].name)
        if constant is not None and constant.tensor.ndim == 4:
            constant.tensor = constant.tensor.contiguous(memory_format=torch.channels_last)
            node.args[1].meta["val"] = exact_meta(constant.tensor)
            changed.append(node.name)
    for node in captured.graph.nodes if changed else ():
        if node.op == "call_function" and "val" in node.meta:
            node.meta["val"] = _moved(node)
    return PassResult("channels_innermost", tuple(changed))


def _moved(node: torch.fx.Node) -> Any:
    """The node's value in its new order; as exported where meta functions take no such values (decompositions keep
    dtypes that ops refuse), or give other values than strides."""
    exported = node.meta["val"]
    try:
        moved = _meta(node)
    except (RuntimeError, NotImplementedError):
        return exported
    return moved if _forms(moved) == _forms(exported) else exported


def _forms(value: Any) -> list[Any]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [(tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else type(x) for x in leaves]


def _wide(value: Any) -> Any:
    half = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return torch.empty_like(value, dtype=torch.float32) if half else value


def _like(value: Any, exported: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype == exported.dtype:
        return value
    return torch.empty_like(value, dtype=exported.dtype)


def _meta(node: torch.fx.Node) -> Any:
    """The node's value again, from the values of its arguments, on the meta device."""
    args, kwargs = torch.utils._pytree.tree_map(
        lambda x: exact_meta(x) if isinstance(x, torch.Tensor) and x.device.type != "meta" else x,
        torch.fx.node.map_arg((node.args, node.kwargs), lambda arg: arg.meta.get("val")),
    )
    kwargs = {
        key: torch.device("meta") if key == "device" and value is not None else value for key, value in kwargs.items()
    }
    target: Any = node.target
    if target in (aten.view.default, aten._unsafe_view.default):
        return args[0].reshape(args[1])
    tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    dynamic = any(type(size) is not int for x in tensors for size in x.shape)
    if dynamic and len(tensors) == 1 and (torch.Tag.pointwise in target.tags or target is aten._to_copy.default):
        return torch.empty_like(tensors[0], dtype=node.meta["val"].dtype)
    if dynamic:  # meta functions convert 16-bit numbers, and a conversion on the meta device fixes sizes
        args, kwargs = torch.utils._pytree.tree_map(_wide, (args, kwargs))
        exported = iter(torch.utils._pytree.tree_leaves(node.meta["val"]))
        value = torch.utils._pytree.tree_map(lambda x: _like(x, next(exported)), target(*args, **kwargs))
    else:
        value = target(*args, **kwargs)
    if target is aten.convolution.default and value.ndim == 4:
        return value.contiguous(memory_format=torch.channels_last)
    return value
