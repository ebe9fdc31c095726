# SPDX-License-Identifier: BSD-3-Clause
"""Rewrites a program whose sizes depend on data to static sizes.

`x[mask]` has as many rows as the mask has true elements. The rewritten program computes a tensor with the largest
number of rows that there can be, and the count of rows that are valid. In every rewritten tensor, the elements within
the counts are those of the original program, and all others are padding of any value. The rule of an op keeps this:
most ops compute rows independently of one another; a sum over rows first fills the padding with zeros.

The bound of a size is the number of elements of the mask, or less if the program declares it
(`torch._check(n <= 8)`). It is an expression of the sizes of inputs where those are dynamic. A count above a declared
bound stops the program on the chip, as an assertion does.
"""

from __future__ import annotations

from typing import Any

import torch

from . import distinct, indexing, order, products, reductions, shapes  # noqa: F401  (which fill the table)
from .elements import pointwise
from .rewrite import Declined, Rewrite, makes_size
from .table import RULES, Rule

REASON = "unbounded"  # key of a node's meta: why the sizes of its program were not bounded


def rule_of(target: Any) -> Rule | None:
    """The rule of an op; an op that upstream marks as pointwise needs none of its own."""
    is_pointwise = isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags
    return RULES.get(target) or (pointwise if is_pointwise else None)


def bound_sizes(program: torch.export.ExportedProgram) -> None:
    """Changes the graph of a decomposed program. A program of which an op has no rule stays as it is, and the nodes
    whose sizes depend on data keep the reason."""
    if not any(makes_size(node) for node in program.graph.nodes if node.op == "call_function"):
        return
    before = len(program.graph.nodes)
    rewrite = Rewrite(program, rule_of)
    try:
        with rewrite.without_new_conditions():
            rewrite.run()
    except Declined as error:
        rewrite.undo()
        assert len(program.graph.nodes) == before
        for node in program.graph.nodes:
            node.meta[REASON] = str(error)
