# SPDX-License-Identifier: BSD-3-Clause
"""Joins elementwise launches over the same elements to one launch of a vector program.

A group runs where its last member stood. That is legal when nobody outside of the group reads a member's result before,
and nobody writes a member's input in between. What only members read is never stored.
"""

from __future__ import annotations

from ...program.ir import Launch, LinearProgram, Operand
from ..pass_result import PassResult
from .build import Builder, fits, is_step
from .layout import Uses, same_elements
from .rewrite import rewritten
from .target import FUNCTIONAL, Target


def fuse_pointwise(
    program: LinearProgram, *, rounds: bool = True, target: Target = FUNCTIONAL
) -> tuple[LinearProgram, PassResult]:
    """`rounds`: 16-bit results are rounded between members, as between launches."""
    fusion = _Fusion(program, rounds, target)
    instructions: list = list(program.instructions)
    removed: set[int] = set()
    names = []
    for group in fusion.groups():
        fused = fusion.launch(group)
        assert fused is not None
        instructions[group[-1]] = fused
        removed.update(group[:-1])
        names += [program.instructions[i].node for i in group[:-1]]
    return rewritten(program, instructions, removed), PassResult("fuse_pointwise", tuple(names))


class _Fusion:
    def __init__(self, program: LinearProgram, rounds: bool, target: Target):
        self.program = program
        self.rounds = rounds
        self.target = target
        self.uses = Uses(program)
        self.group_of: dict[int, list[int]] = {}

    def groups(self) -> list[list[int]]:
        for i, inst in enumerate(self.program.instructions):
            if not isinstance(inst, Launch) or not is_step(inst) or not self.target.step(inst):
                continue
            self.group_of[i] = [i]
            for operand in inst.inputs:
                producer = self._producer(operand, i)
                if producer is not None and self.group_of[producer] is not self.group_of[i]:
                    self._join(self.group_of[producer], self.group_of[i])
        found = {id(group): group for group in self.group_of.values() if len(group) > 1}
        return list(found.values())

    def _producer(self, operand: object, reader: int) -> int | None:
        """The member that wrote exactly what `reader` reads."""
        if not isinstance(operand, Operand) or len(self.uses.writers[operand.buffer]) != 1:
            return None
        writer = self.uses.writers[operand.buffer][0]
        if writer >= reader or writer not in self.group_of:
            return None
        out = self.program.instructions[writer].writes()[0]
        return writer if same_elements(out, operand) else None

    def _join(self, first: list[int], second: list[int]) -> None:
        group = sorted(first + second)
        if self._is_legal(group) and self.launch(group) is not None:
            for i in group:
                self.group_of[i] = group

    def _is_legal(self, group: list[int]) -> bool:
        program, uses, last, members = self.program, self.uses, group[-1], set(group)
        for i in group[:-1]:
            inst = program.instructions[i]
            out = inst.writes()[0].buffer
            if len(uses.writers[out]) > 1:
                return False
            if any(reader < last and reader not in members for reader in uses.readers[out]):
                return False
            if not uses.see_all_of(inst.writes()[0], members.intersection(uses.readers[out])):
                return False
            if not uses.may_move(i, last, members):
                return False
        return True

    def launch(self, group: list[int]) -> Launch | None:
        """The group as one launch; None when it does not fit the kernel."""
        launches = [inst for i in group if isinstance(inst := self.program.instructions[i], Launch)]
        last, builder = launches[-1], Builder(self.rounds)
        written = builder.add_all(launches, last.writes()[0].sizes)
        if written is None:
            return None
        outputs = [out for out in written if not self._is_internal(out.buffer, set(group))]
        if not outputs:
            return None
        joined = Launch(
            "fused",
            tuple(outputs),
            tuple(builder.operands),
            outputs[0].dtype,
            node=last.node,
            program=builder.finish(outputs),
            fused=last.computes_with(*launches),
            parts=tuple(launches),
        )
        return joined if fits(joined) and self.target.takes(joined) else None

    def _is_internal(self, buffer: int, members: set[int]) -> bool:
        return self.uses.is_private(buffer) and all(reader in members for reader in self.uses.readers[buffer])
