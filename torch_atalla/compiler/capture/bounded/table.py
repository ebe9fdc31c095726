# SPDX-License-Identifier: BSD-3-Clause
"""The table of rules, and what they have in common.

A rule takes the rewrite and the old node, and returns the new node. It declines what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_leaves

from ...program.call_arguments import arguments_of, as_call
from ...program.rules import Rules
from .rewrite import Declined, Node, Rewrite

aten = torch.ops.aten
Rule = Callable[[Rewrite, Node], Any]
rule = RULES = Rules()
_SIZES = {"size", "repeats", "pad", "end"}  # arguments that become those of the bound


def args_of(node: Node) -> list[Any]:
    """The arguments of a node by their places."""
    return list(node.args)


def again(rewrite: Rewrite, node: Node, target: Any = None, **changed: Any) -> Any:
    """The same op, or another overload, of the new arguments, some of which may be changed."""
    target = target or node.target
    given = {name: value for name, value in arguments_of(node).items() if name not in changed}
    for name, value in given.items():
        if name not in _SIZES and any(map(rewrite.is_number_of_data, tree_leaves(value))):
            decline(rewrite, f"the number {name} depends on data")
    arguments = {name: rewrite.new(value) for name, value in given.items()} | changed
    plain, named = as_call(target, arguments)
    return rewrite.call(target, *plain, **named)


def only(rewrite: Rewrite, node: Any, dims: Any, why: str) -> None:
    """Declines if a size of another dimension than `dims` depends on data."""
    others = sorted(set(rewrite.extents(node)) - set(dims))
    if others:
        decline(rewrite, f"dimension {others[0]} has a count, {why}")


def limited(*limits: tuple[str, Callable[[int], Iterable[int]], str]) -> Rule:
    """The rule of an op that becomes itself if some arguments have counts in some dimensions alone: (argument, those
    dimensions by the number of all, why no others)."""

    def same_op(rewrite: Rewrite, node: Node) -> Any:
        arguments = arguments_of(node)
        for name, dims, why in limits:
            only(rewrite, arguments[name], dims(value_of(arguments[name]).ndim), why)
        return again(rewrite, node)

    return same_op


def value_of(node: Node) -> torch.Tensor:
    return node.meta["val"]


def all_dims(node: Any) -> range:
    return range(node.meta["val"].ndim) if isinstance(node, Node) else range(0)


def decline(rewrite: Rewrite, why: str) -> NoReturn:
    raise Declined(f"{rewrite.node.name} ({rewrite.node.target}): {why}")


def size_of_example(size: Any) -> int:
    """Of a size of inputs that are dynamic, the one that the program was exported with. Makes no condition of it."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size


def within(rewrite: Rewrite, places: Node, size: Any) -> Node:
    """Places that are moved to 0, 1, ..., size - 1."""
    if isinstance(size, int):
        return rewrite.call(aten.clamp.default, places, 0, max(0, size - 1))
    last = rewrite.on_chip(rewrite.expr(size) - 1)
    return rewrite.call(aten.minimum.default, rewrite.call(aten.clamp.default, places, 0), last)


def places_of(rewrite: Rewrite, size: Any) -> Node:
    """0, 1, ..., size - 1."""
    return rewrite.call(aten.arange.start_step, 0, size, 1, dtype=torch.int64, device=rewrite.device)
