# SPDX-License-Identifier: BSD-3-Clause
"""Rules of ops that compute each element from those at the same place, and of those that make elements."""

from __future__ import annotations

import operator
from typing import Any

import torch

from ...program.call_arguments import arguments_of
from ...program.support import overloads
from .rewrite import Node, Rewrite
from .table import RULES, again, args_of, decline, limited, rule

aten = torch.ops.aten


def pointwise(rewrite: Rewrite, node: Node) -> Any:
    """A number that depends on data becomes a tensor of no dimensions."""
    changed = {}
    target: Any = node.target
    for name, value in arguments_of(node).items():
        if rewrite.is_number_of_data(value):
            target = _of_tensor(rewrite, node, name)
            changed[name] = rewrite.on_chip(rewrite.expr(value))
    return again(rewrite, node, target, **changed)


def _of_tensor(rewrite: Rewrite, node: Node, name: str) -> Any:
    """The overload of an op that takes a tensor for an argument."""
    target: Any = node.target
    found = target if target._overloadname != "Scalar" else getattr(target.overloadpacket, "Tensor", None)
    types = {argument.name: argument.type for argument in found._schema.arguments} if found is not None else {}
    if not isinstance(types.get(name), torch._C.TensorType):
        decline(rewrite, f"the number {name} depends on data")
    return found


# Ops of the same elements, those that make all elements alike, and assertions.
_ALIKE = overloads(
    *("clone", "_to_copy", "alias", "detach", "lift_fresh_copy", "copy", "permute", "transpose.int", "t", "unsqueeze"),
    *("squeeze.dim", "squeeze.dims", "expand", "where.self", "full", "full_like", "zeros", "zeros_like", "ones"),
    *("ones_like", "empty.memory_format", "new_zeros", "new_ones", "new_full", "_assert_async.msg", "_assert_async"),
)
RULES.update(dict.fromkeys(_ALIKE, again))


@rule(operator.getitem)
def getitem(rewrite: Rewrite, node: Node) -> Node:
    return rewrite.new(args_of(node)[0])[args_of(node)[1]]


RULES[aten.bucketize.Tensor] = limited(("boundaries", lambda _: (), "of the boundaries"))


@rule(aten.arange.start_step, aten.arange.default, aten.arange.start)
def arange(rewrite: Rewrite, node: Node) -> Any:
    args = arguments_of(node)
    if any(not isinstance(args.get(name, 0), (int, float)) for name in ("start", "step")) or args.get("step", 1) <= 0:
        decline(rewrite, "its start or its step depends on data, or the step is negative")
    return again(rewrite, node)
