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
from ...program.call_arguments import arguments_of
from .attention_masks import Mask, hides_nothing, is_causal_mask
from .matching import ATTENTION, argument, computed_meta, is_static, is_tensor, new_node, node_pass, shape, value

aten = torch.ops.aten


@node_pass(ATTENTION)
def narrow_masks(captured: Captured, node: torch.fx.Node) -> bool:
    """A mask is computed before it is repeated: the kernel broadcasts it. Runs before constants are folded."""
    given = arguments_of(node)
    mask = given["attn_mask"]
    source = _before_repetition(captured, mask) if is_tensor(mask) else mask
    if source is mask:
        return False
    _replace(captured, node, source, given["is_causal"])
    return True


@node_pass(ATTENTION)
def simplify_masks(captured: Captured, node: torch.fx.Node, *, exact: bool = True) -> bool:
    """A constant that hides nothing goes; one that is causal becomes the flag unless results are `exact`."""
    given = arguments_of(node)
    mask, causal = given["attn_mask"], given["is_causal"]
    if not is_tensor(mask):
        return False
    if not hides_nothing(captured, _as_mask(mask)):
        if exact or causal or not _is_causal(captured, node, mask):
            return False
        causal = True
    _replace(captured, node, None, causal)
    return True


def _replace(captured: Captured, node: torch.fx.Node, mask: torch.fx.Node | None, causal: bool) -> None:
    args = (*node.args[:3], mask, arguments_of(node)["dropout_p"], causal)
    kept = {name: item for name, item in node.kwargs.items() if name in ("scale", "enable_gqa")}
    with captured.graph.inserting_before(node):
        result = new_node(captured, ATTENTION, args, kept, node, value(node))
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


def _as_mask(mask: torch.fx.Node) -> Mask:
    """True and 0 let a score pass."""
    return Mask(mask, fill=-torch.inf, hidden=False) if value(mask).dtype == torch.bool else Mask(mask)


def _is_causal(captured: Captured, node: torch.fx.Node, mask: torch.fx.Node) -> bool:
    query, key = node.args[:2]
    if not is_static(query) or not is_static(key):
        return False
    return is_causal_mask(captured, _as_mask(mask), (shape(query)[-2], shape(key)[-2]))
