# SPDX-License-Identifier: BSD-3-Clause
"""Loads of a loop that bring in what the next pass reads, into the other half of their buffer, while a pass computes.

A load takes part if its addresses and mask depend on nothing that the pass loads or computes in tiles, and if no store
of the loop can change what it reads: the loop has none, or the launch says that what it writes is apart (`apart`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....tile.ir import Block, Op, Region, Value
from ..scalar_core.values import Value as Register
from .generator import APART, RULES, Generator

_INTEGERS = ("addi", "subi", "muli", "divsi", "remsi", "minsi", "maxsi", "cmpi", "andi", "ori", "xori", "shli", "shrsi",
             "shrui", "extsi", "extui", "trunci", "index_cast", "select", "constant")  # fmt: skip
_PURE = {f"arith.{name}" for name in _INTEGERS} | {f"tt.{name}" for name in (
    "splat", "addptr", "expand_dims", "broadcast", "make_range", "get_program_id", "get_num_programs")}  # fmt: skip
_WRITES = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas")


@dataclass
class Ahead:
    """A load that is ahead of its loop. shift: bytes from the buffer's first half to that of this pass. ready: whether
    it has been loaded. follows: whether there is another pass; called once in each."""

    shift: Register
    ready: Register
    ops: list[Op]
    follows: Callable[[], Any]
    substituted: Callable[[], dict[Value, Any]]
    program_ids: Callable[[], list[Any]]

    def next_operands(self, g: Generator, op: Op) -> list[Any]:
        """Addresses and mask of the next pass."""
        ids, g.program_ids = g.program_ids, self.program_ids()
        new = self.substituted()
        found = evaluated(g, self.ops, new, op.operands[:2])
        g.program_ids = ids
        return found


def evaluated(g: Generator, ops: Sequence[Op], new: dict[Value, Any], wanted: Sequence[Value]) -> list[Any]:
    """Values after these ops, with others in place of some."""
    old = {value: g.values.get(value) for value in new}
    g.values.update(new)
    for op in ops:
        for value, result in zip(op.results, RULES[op.name](g, op), strict=True):
            old.setdefault(value, g.values.get(value))
            g.values[value] = result
    found = [g.of(value) for value in wanted]
    g.values.update(old)
    return found


def slice_of(block: Block, wanted: Sequence[Value]) -> list[Op] | None:
    """The ops of a block that compute these values, in order. None if one of them does more than integers."""
    makers = {result: op for op in block.ops for result in op.results}
    needed: set[int] = set()
    pending = list(wanted)
    while pending:
        op = makers.get(pending.pop())
        if op is None or id(op) in needed:
            continue
        if op.name not in _PURE:
            return None
        needed.add(id(op))
        pending += op.operands
    return [op for op in block.ops if id(op) in needed]


def _root(g: Generator, value: Value) -> Value:
    """The argument of the kernel from which an address is computed, as far as the ops that move it tell."""
    while value in g.makers and g.makers[value].name in ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims"):
        value = g.makers[value].operands[0]
    return value


def plan(
    g: Generator, region: Region, changed: dict[Value, Value], follows: Callable[[], Any],
    index: tuple[Value, Callable[[], Any]] | None, program_ids: Callable[[], list[Any]],
) -> None:  # fmt: skip
    """Decides before a loop which loads of its body go ahead. changed: arguments of the body, with the values that the
    next pass has for them. index: the loop's index, and its next value."""
    block = region.entry
    ends = {value: slice_of(block, [end]) for value, end in changed.items()}
    for op in block.ops:
        if op.name != "tt.load" or op.results[0].type.shape is None or op.results[0].type.element != "bf16":
            continue
        ops = slice_of(block, op.operands[:2])
        if ops is None:
            continue
        used = {value for inner in (*ops, op) for value in inner.operands}
        moved = [value for value in changed if value in used]
        steps = [ends[value] for value in moved]
        if any(step is None for step in steps):
            continue
        varies = moved or (index is not None and index[0] in used) or any(o.name == "tt.get_program_id" for o in ops)
        root = op.operands[0]
        if root in changed:  # pointers that the loop moves
            root = g.first_values.get(root, root)
        if not varies:
            continue
        condition = follows
        if any(inner.name in _WRITES for inside in region.all_blocks() for inner in inside.ops):
            position = next((n for n, v in enumerate(g.entry.arguments) if v is _root(g, root)), None)
            if position is None or g.written is None or position in g.written:
                continue
            condition = _only_apart(g, follows)

        def substituted(moved: list[Value] = moved, steps: list[Any] = steps) -> dict[Value, Any]:
            new = {}
            for value, step in zip(moved, steps, strict=True):
                new[value] = evaluated(g, step, {}, [changed[value]])[0]
            if index is not None:
                new[index[0]] = index[1]()
            return new

        g.ahead[op] = Ahead(g.variable(0), g.variable(0), ops, condition, substituted, program_ids)


def _only_apart(g: Generator, follows: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: g.core.value(follows()) & g.core.parameter(APART)
