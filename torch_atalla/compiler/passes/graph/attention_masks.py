# SPDX-License-Identifier: BSD-3-Clause
"""The masks of attention that a model spells out, in the forms that the attention kernel takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from ...capture.capture import Captured
from .matching import computed_meta, constant_value, is_tensor, new_constant, new_node, number, operands, shape, value

aten = torch.ops.aten

# A score plus less than this is this: with such a number hidden scores lose what told them apart, as if replaced.
_LOWEST = -1e30


@dataclass(frozen=True)
class Mask:
    """An addend; or what replaces scores by `fill` where `node` is `hidden`."""

    node: torch.fx.Node
    fill: float | None = None
    hidden: bool = True

    @property
    def is_finite_fill(self) -> bool:
        return self.fill is not None and math.isfinite(self.fill)


def mask_of(captured: Captured, node: torch.fx.Node) -> list[tuple[Any, Mask]]:
    """The ways in which `node` is scores under a mask: (scores, mask)."""
    if node.target is aten.add.Tensor:
        return [
            (source, Mask(mask))
            for source, mask in operands(node)
            if is_tensor(mask) and value(mask).is_floating_point()
        ]
    if node.target is aten.masked_fill.Scalar or node.target is aten.masked_fill.Tensor:
        source, mask, fill = node.args
        return _fill(captured, source, mask, fill, True)
    if node.target is aten.where.self:
        mask, first, second = node.args
        return [*_fill(captured, first, mask, second, False), *_fill(captured, second, mask, first, True)]
    return []


def _fill(captured: Captured, source: Any, mask: Any, fill: Any, hidden: bool) -> list[tuple[Any, Mask]]:
    lowest = _uniform(captured, fill)
    if lowest is None or not lowest <= _LOWEST or not is_tensor(mask) or value(mask).dtype != torch.bool:
        return []
    return [(source, Mask(mask, lowest, hidden))]


def _uniform(captured: Captured, node: Any) -> float | None:
    """The number that every element is."""
    found = number(captured, node)
    if found is not None:
        return found
    known = constant_value(captured, node)
    if known is not None and known.numel() > 0 and known.is_floating_point():
        first = known.flatten()[0]
        return float(first) if bool((known == first).all()) else None
    if isinstance(node, torch.fx.Node) and node.target is aten.full.default:
        return number(captured, node.args[1])
    return None


def plan_mask(
    captured: Captured, masks: list[Mask], like: torch.fx.Node, sizes: tuple[int, ...]
) -> tuple[torch.fx.Node | None, bool]:
    """The kernel's mask, if it needs one, and whether it is causal. New nodes stand at the insertion point."""
    masks = [mask for mask in masks if not hides_nothing(captured, mask)]
    if not masks:
        return None, False
    if len(masks) == 1 and is_causal_mask(captured, masks[0], sizes):
        return None, True
    if len(masks) == 1 and masks[0].fill == -math.inf:
        return _seen(captured, masks[0], like, hidden=False), False
    total: torch.fx.Node | None = None
    for mask in masks:
        addend = mask.node if mask.fill is None else _addend(captured, mask, like)
        if total is not None:
            meta = computed_meta(aten.add.Tensor, total, addend)
            addend = new_node(captured, aten.add.Tensor, (total, addend), {}, like, meta)
        total = addend
    return total, False


def _seen(captured: Captured, mask: Mask, like: torch.fx.Node, *, hidden: bool) -> torch.fx.Node:
    """True where a score is hidden, or where it is not."""
    if mask.hidden == hidden:
        return mask.node
    meta = torch.empty(shape(mask.node), dtype=torch.bool, device="meta")
    return new_node(captured, aten.logical_not.default, (mask.node,), {}, like, meta)


def _addend(captured: Captured, mask: Mask, like: torch.fx.Node) -> torch.fx.Node:
    """`fill` where the mask hides, else 0."""
    dtype = torch.float64 if value(like).dtype == torch.float64 else torch.float32
    zero = new_constant(captured, f"{like.name}_zero", torch.zeros((), dtype=dtype))
    hidden = _seen(captured, mask, like, hidden=True)
    meta = torch.empty(shape(hidden), dtype=dtype, device="meta")
    return new_node(captured, aten.masked_fill.Scalar, (zero, hidden, mask.fill), {}, like, meta)


def hides_nothing(captured: Captured, mask: Mask) -> bool:
    """Whether a constant lets all scores pass."""
    known = constant_value(captured, mask.node)
    if known is None:
        return False
    return bool(known.all() if mask.fill is not None and not mask.hidden else not known.any())


def is_causal_mask(captured: Captured, mask: Mask, sizes: tuple[int, ...]) -> bool:
    """Whether a constant hides exactly what lies above the diagonal."""
    known = constant_value(captured, mask.node)
    if known is None or known.ndim < 2 or tuple(known.shape[-2:]) != sizes or sizes[0] != sizes[1]:
        return False
    below = torch.ones(sizes, dtype=torch.bool).tril()
    if mask.fill is not None:
        return bool((known == (~below if mask.hidden else below)).all())
    expected = torch.where(below, known == 0, known <= _LOWEST)
    return bool(expected.all())
