# SPDX-License-Identifier: BSD-3-Clause
"""Attention that a model spells out becomes one launch, without the scores in DRAM.

    softmax(q k' * scale + mask) v

The scale may divide, or stand anywhere before the mask; masks are added, or are `masked_fill` or `where` with -inf or
the lowest number; the softmax may be computed in float32 and cast back; the products may be of rank 2 to 4 or come from
einsum; keys and values may be repeated for groups of heads. A constant causal mask becomes a flag, so that what it
hides is never computed.

The kernel rounds otherwise than the parts do, so the pass belongs to `optimize="fast"`. A row that is masked with -inf
throughout gives zeros, where the parts give NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from ...capture.capture import Captured
from ...program.support import overloads
from .attention_masks import Mask, mask_of, plan_mask
from .matching import (
    ATTENTION,
    RESHAPES,
    are_private,
    argument,
    is_floating_cast,
    is_static,
    is_tensor,
    new_node,
    new_view,
    node_pass,
    number,
    only_user,
    operands,
    shape,
    value,
)

aten = torch.ops.aten

_PRODUCTS = {aten.bmm.default, aten.mm.default}
_VIEWS = RESHAPES | overloads("expand", "permute", "transpose.int", "unsqueeze", "squeeze.dim", "squeeze.dims")


@dataclass
class _Scores:
    """softmax(...)'s argument, from the product on."""

    product: torch.fx.Node
    inner: list[torch.fx.Node] = field(default_factory=list)  # from the product to the argument
    scale: float = 1.0
    masks: list[Mask] = field(default_factory=list)  # the innermost first
    sizes: tuple[int, ...] = ()  # [..., l, s], in which the masks are applied


@node_pass(aten._softmax.default)
def fuse_attention(captured: Captured, softmax: torch.fx.Node) -> bool:
    if not is_static(softmax) or value(softmax).ndim < 2 or softmax.args[1] not in (-1, value(softmax).ndim - 1):
        return False
    scores = _scores(captured, argument(softmax))
    if scores is None or not math.isfinite(scores.scale):
        return False
    after = _weights(softmax)
    if after is None:
        return False
    *between, context = after
    sizes = scores.sizes or shape(softmax)
    if len(sizes) > 4 or not (_is_reshape(scores.product, scores.inner[1:]) and _is_reshape(softmax, between)):
        return False
    inner = [*scores.inner, softmax, *between, context]
    if not are_private(inner, context):
        return False
    lead, (rows, keys) = sizes[:-2], sizes[-2:]
    if (math.prod(lead), rows, keys) != _matrix(softmax) or _matrix(softmax) != _matrix(scores.product):
        return False
    if _matrix(argument(context)) != _matrix(softmax):
        return False
    with captured.graph.inserting_before(context):
        return _replace(captured, scores, context, lead)


def _matrix(node: object) -> tuple[int, ...]:
    """[n, rows, columns], whatever n is called."""
    sizes = shape(node)
    return (math.prod(sizes[:-2]), *sizes[-2:])


def _scores(captured: Captured, node: object) -> _Scores | None:
    """What leads from a product to `node`; None: nothing that is known."""
    if not is_static(node) or not isinstance(node, torch.fx.Node) or not value(node).is_floating_point():
        return None
    if node.target in _PRODUCTS:
        return _Scores(node, [node])
    if node.target in _VIEWS or is_floating_cast(node):
        found = _scores(captured, argument(node))
        if found is not None:
            found.inner.append(node)
        return found
    if node.target is aten.div.Tensor:
        divisor = number(captured, node.args[1])
        return _scaled(captured, node, argument(node), None if not divisor else 1 / divisor)
    if node.target is aten.mul.Tensor:
        for source, factor in operands(node):
            scale = number(captured, factor)
            if scale is not None:
                return _scaled(captured, node, source, scale)
        return None
    for source, mask in mask_of(captured, node):
        found = _scores(captured, source)
        if found is None or shape(source) != shape(node) or (found.sizes and found.sizes != shape(node)):
            continue
        if found.masks and mask.is_finite_fill:
            continue  # would also hide what the masks before it left
        found.masks.append(mask)
        found.sizes = shape(node)
        found.inner.append(node)
        return found
    return None


def _scaled(captured: Captured, node: torch.fx.Node, source: object, scale: float | None) -> _Scores | None:
    found = _scores(captured, source)
    if scale is None or found is None or found.masks or shape(source) != shape(node):  # a mask must not be scaled
        return None
    found.scale *= scale
    found.inner.append(node)
    return found


def _weights(softmax: torch.fx.Node) -> list[torch.fx.Node] | None:
    """What leads from the softmax to the second product, which comes last."""
    found: list[torch.fx.Node] = []
    node = softmax
    while True:
        user = only_user(node)
        if user is None or not is_static(user):
            return None
        found.append(user)
        if user.target in _PRODUCTS:
            return found if argument(user) is node and user.args[1] is not node else None
        if user.target not in _VIEWS and not is_floating_cast(user):
            return None
        node = user


def _is_reshape(first: torch.fx.Node, nodes: list[torch.fx.Node]) -> bool:
    """Whether what follows `first` leaves the elements in their order. Replayed on strides, without memory."""
    seen = torch.empty(shape(first), device="meta")
    for node in nodes:
        if node.target in _VIEWS:
            try:
                seen = node.target(seen, *node.args[1:], **node.kwargs)
            except RuntimeError:  # a view of what no strides describe
                return False
    return seen.numel() == math.prod(shape(first)) and seen.is_contiguous()


def _replace(captured: Captured, scores: _Scores, context: torch.fx.Node, lead: tuple[int, ...]) -> bool:
    query, key, source = argument(scores.product), argument(scores.product, 1), argument(context, 1)
    dtypes = {value(node).dtype for node in (query, key, source, context)}
    if len(dtypes) != 1 or _matrix(source)[0] not in (math.prod(lead), 1):
        return False
    q = _heads(captured, query, lead)
    k = _turned(captured, _heads(captured, key, lead))
    v = _heads(captured, source, lead)
    grouped = _groups(k, v)
    if grouped is not None:
        k, v = grouped
    mask, causal = plan_mask(captured, scores.masks, context, scores.sizes[-2:])
    sizes = (*lead, *shape(context)[-2:])
    meta = torch.empty(sizes, dtype=value(context).dtype, device="meta")
    args = (q, k, v, mask, 0.0, causal)
    options = {"scale": scores.scale, "enable_gqa": grouped is not None}
    attention = new_node(captured, ATTENTION, args, options, context, meta)
    user = only_user(context)
    if user is not None and user.target in RESHAPES and shape(user) == sizes:
        user.replace_all_uses_with(attention)
    elif shape(context) == sizes:
        context.replace_all_uses_with(attention)
    else:
        context.replace_all_uses_with(new_view(captured, aten.reshape.default, attention, list(shape(context))))
    return True


def _heads(captured: Captured, node: torch.fx.Node, lead: tuple[int, ...]) -> torch.fx.Node:
    """A product's operand [n, rows, cols] as [*lead, rows, cols]: what was merged for the product, where that is."""
    wanted = (*lead, *shape(node)[-2:])
    seen = node
    while True:
        if seen.target is aten.expand.default and shape(argument(seen)) == shape(seen):
            seen = argument(seen)
        elif shape(seen) == wanted:
            return seen
        elif seen.target in RESHAPES and is_static(argument(seen)):
            seen = argument(seen)
        else:
            return new_view(captured, aten.view.default, node, list(wanted))


def _turned(captured: Captured, node: torch.fx.Node) -> torch.fx.Node:
    """With the last two dimensions exchanged."""
    last = value(node).ndim - 1
    dims = [*range(last - 1), last, last - 1]
    if node.target is aten.permute.default and [d % (last + 1) for d in argument(node, 1)] == dims:
        return argument(node)
    return new_view(captured, aten.permute.default, node, dims)


def _groups(key: torch.fx.Node, source: torch.fx.Node) -> tuple[torch.fx.Node, torch.fx.Node] | None:
    """Keys and values before each of their heads was repeated for a group of query heads."""
    found = [_repeated(node) for node in (key, source)]
    if found[0] is None or found[1] is None or shape(found[0])[1] != shape(found[1])[1]:
        return None
    return found[0], found[1]


def _repeated(node: torch.fx.Node) -> torch.fx.Node | None:
    if node.target not in RESHAPES or value(node).ndim != 4:
        return None
    expanded = argument(node)
    if not is_tensor(expanded) or expanded.target is not aten.expand.default or value(expanded).ndim != 5:
        return None
    unsqueezed = argument(expanded)
    if unsqueezed.target is not aten.unsqueeze.default or unsqueezed.args[1] not in (2, -3):
        return None
    heads = argument(unsqueezed)
    batch, groups, repeats, rows, width = shape(expanded)
    if shape(heads) != (batch, groups, rows, width) or shape(node) != (batch, groups * repeats, rows, width):
        return None
    return heads
