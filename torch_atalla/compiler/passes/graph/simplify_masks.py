# SPDX-License-Identifier: BSD-3-Clause
"""Masks of attention: torch.export traces the masks that a library builds, repeated for each sequence of a batch, and
also where a caller gives no padding.

No bit changes, with one exception. Unless results must be exact, a mask that hides what lies behind each query becomes
the flag `is_causal`, with which the kernel skips what is hidden. The flag gives other results where hidden keys or
values are infinite or NaN.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from ..pass_result import PassResult
from .attention_masks import Mask, is_causal_mask
from .matching import argument, computed_meta, constant_value, is_static, is_tensor, new_node, shape, value

aten = torch.ops.aten


def narrow_masks(captured: Captured) -> PassResult:
    """A mask is computed before it is repeated: the kernel broadcasts it. Runs before constants are folded."""
    changed = []
    for node, mask in _masked(captured):
        source = _before_repetition(captured, mask)
        if source is not mask:
            _replace(captured, node, source, _given(node, 5, "is_causal", False))
            changed.append(node.name)
    return PassResult("narrow_masks", tuple(changed))


def simplify_masks(captured: Captured, *, exact: bool = True) -> PassResult:
    """A constant that hides nothing goes; one that is causal becomes the flag unless results are `exact`."""
    changed = []
    for node, mask in _masked(captured):
        causal = _given(node, 5, "is_causal", False)
        if not _hides_nothing(captured, mask):
            if exact or causal or not _is_causal(captured, node, mask):
                continue
            causal = True
        _replace(captured, node, None, causal)
        changed.append(node.name)
    return PassResult("simplify_masks", tuple(changed))


def _masked(captured: Captured) -> list[tuple[torch.fx.Node, torch.fx.Node]]:
    """Launches of attention with their masks."""
    nodes = captured.graph.find_nodes(op="call_function", target=aten.scaled_dot_product_attention.default)
    return [(node, mask) for node in nodes if is_tensor(mask := _given(node, 3, "attn_mask", None))]


def _given(node: torch.fx.Node, position: int, name: str, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _replace(captured: Captured, node: torch.fx.Node, mask: torch.fx.Node | None, causal: bool) -> None:
    args = (*node.args[:3], mask, _given(node, 4, "dropout_p", 0.0), causal)
    kept = {name: item for name, item in node.kwargs.items() if name in ("scale", "enable_gqa")}
    with captured.graph.inserting_before(node):
        result = new_node(captured, aten.scaled_dot_product_attention.default, args, kept, node, value(node))
    node.replace_all_uses_with(result)
    captured.graph.erase_node(node)


def _before_repetition(captured: Captured, node: Any) -> Any:
    """A node of which `node` is a repetition, made anew where a mask is computed from repetitions."""
    if node.target is aten.expand.default:
        return _before_repetition(captured, argument(node))
    if node.target is not aten.where.self and not _is_contiguous_copy(node):
        return node
    parts = tuple(_before_repetition(captured, arg) for arg in node.args)
    if parts == node.args or not all(map(is_static, parts)):
        return node
    with captured.graph.inserting_before(node):
        meta = computed_meta(node.target, *parts, **node.kwargs)
        return new_node(captured, node.target, parts, node.kwargs, node, meta)


def _is_contiguous_copy(node: torch.fx.Node) -> bool:
    return node.target is aten.clone.default and node.kwargs.get("memory_format") is torch.contiguous_format


def _hides_nothing(captured: Captured, mask: torch.fx.Node) -> bool:
    """Whether every element of a constant lets its score pass: True, or 0 of an addend."""
    known = constant_value(captured, mask)
    if known is None:
        return False
    return bool(known.all() if known.dtype == torch.bool else not known.any())


def _is_causal(captured: Captured, node: torch.fx.Node, mask: torch.fx.Node) -> bool:
    query, key = node.args[:2]
    if not is_static(query) or not is_static(key):
        return False
    as_mask = Mask(mask, fill=-torch.inf, hidden=False) if value(mask).dtype == torch.bool else Mask(mask)
    return is_causal_mask(captured, as_mask, (shape(query)[-2], shape(key)[-2]))
