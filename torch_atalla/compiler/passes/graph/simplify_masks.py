# SPDX-License-Identifier: BSD-3-Clause
"""Attention loses a mask that hides nothing: torch.export traces the masks that a library builds, also where a caller
gives no padding.

A mask of zeros adds nothing, so every bit stays. Unless results must be exact, a mask that hides what lies behind each
query becomes the flag `is_causal`, with which the kernel skips what is hidden. The flag gives other results where
hidden keys or values are infinite or NaN.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from ..pass_result import PassResult
from .attention_masks import Mask, is_causal_mask
from .matching import RESHAPES, argument, constant_value, is_static, is_tensor, shape, value

aten = torch.ops.aten


def simplify_masks(captured: Captured, *, exact: bool = True) -> PassResult:
    changed = []
    for node in captured.graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default):
        mask, causal = _given(node, 3, "attn_mask", None), _given(node, 5, "is_causal", False)
        if not is_tensor(mask):
            continue
        if not _hides_nothing(captured, mask):
            if exact or causal or not _is_causal(captured, node, mask):
                continue
            causal = True
        kept = {name: item for name, item in node.kwargs.items() if name not in ("attn_mask", "dropout_p", "is_causal")}
        node.args, node.kwargs = (*node.args[:3], None, _given(node, 4, "dropout_p", 0.0), causal), kept
        changed.append(node.name)
    return PassResult("simplify_masks", tuple(changed))


def _given(node: torch.fx.Node, position: int, name: str, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _hides_nothing(captured: Captured, mask: torch.fx.Node) -> bool:
    """Whether every element is known to let its score pass: True, or 0 of an addend."""
    source, dtype = _viewed(mask), value(mask).dtype
    if source.target is aten.where.self and dtype != torch.bool:  # of dynamic size, which is not folded
        return all(_hides_nothing(captured, argument(source, index)) for index in (0, 1))
    known = constant_value(captured, source)
    if known is None or known.dtype != dtype:
        return False
    return bool(known.all() if dtype == torch.bool else not known.any())


def _viewed(node: torch.fx.Node) -> torch.fx.Node:
    """The node of which it is a view, also one of dynamic size."""
    while node.target in RESHAPES or (isinstance(node.target, torch._ops.OpOverload) and node.target.is_view):
        node = argument(node)
    return node


def _is_causal(captured: Captured, node: torch.fx.Node, mask: torch.fx.Node) -> bool:
    query, key = node.args[:2]
    if not is_static(query) or not is_static(key):
        return False
    as_mask = Mask(mask, fill=-torch.inf, hidden=False) if value(mask).dtype == torch.bool else Mask(mask)
    return is_causal_mask(captured, as_mask, (shape(query)[-2], shape(key)[-2]))
