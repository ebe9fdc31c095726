# SPDX-License-Identifier: BSD-3-Clause
"""The table of lowering rules, and how a node's arguments reach its rule.

A rule is a function `rule(ctx, node, *, <schema arguments by name>)` which launches kernels and gives the node's value
(a tuple for several results). Tensor arguments arrive as Value, all others as in the graph, defaults filled in. It
raises NotNativeError, with the reason for the report, for a node that it does not take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from torch_atalla.driver.dtypes import REAL

from ..program.call_arguments import arguments_of

Rule = Callable[..., Any]


@dataclass(frozen=True)
class RegisteredRule:
    rule: Rule
    dtypes: frozenset[torch.dtype]  # that the first result may have
    operands: frozenset[torch.dtype]  # that tensor arguments may have
    promotes: bool  # whether tensor arguments may have several floating-point or complex dtypes


RULES: dict[str, RegisteredRule] = {}


def lowers(
    *ops: str,
    dtypes: Iterable[torch.dtype] = REAL,
    operands: Iterable[torch.dtype] = REAL,
    promotes: bool = False,
    namespace: str = "aten",
) -> Callable[[Rule], Rule]:
    """Registers a rule for overloads such as "mm.default". `dtypes`: those that the first result may have. `operands`:
    those that tensor arguments may have. `promotes`: the rule takes arguments of several floating-point or complex
    dtypes as eager mode does; others leave those to the recording, in which the adaptor converts or refuses them.
    `namespace`: the library that defines the op; a rule does not need it to be there."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            RULES[f"{namespace}.{op}"] = RegisteredRule(rule, frozenset(dtypes), frozenset(operands), promotes)
        return rule

    return register


def bind(node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> dict[str, Any]:
    """The node's arguments by schema name, nodes replaced by their values."""
    given = arguments_of(node).items()
    return {name: torch.fx.node.map_arg(value, values.__getitem__) for name, value in given}


def reads(node: torch.fx.Node, result: int) -> bool:
    """Whether anything reads that result of a node with several."""
    return any(user.args[1] == result for user in node.users if len(user.args) == 2)
