# SPDX-License-Identifier: BSD-3-Clause
"""Lets a reduction compute its elements: the elementwise launches before it become its vector program.

The elements then never stand in memory. The kernel follows the plan that the reduction of the stored, contiguous
tensor would follow, so the bits stay. Only elements that nobody else reads are taken in, so nothing is computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ...program import kernels
from ...program.ir import Launch, LinearProgram, Operand, contiguous_strides
from ..pass_result import PassResult
from .build import Builder, fits, is_step
from .layout import Uses, is_static, merged
from .rewrite import rewritten

# As in csrc/sim/kernels/reduce/reduce_plan.cpp: when a reduction goes by columns.
_SHORT_ROW = 32
_FEW_OUTPUTS = 8


def fuse_reductions(program: LinearProgram, *, rounds: bool = True) -> tuple[LinearProgram, PassResult]:
    """`rounds`: 16-bit results are rounded between members, as between launches."""
    uses = Uses(program)
    instructions: list = list(program.instructions)
    removed: set[int] = set()
    names = []
    for i, inst in enumerate(program.instructions):
        if not isinstance(inst, Launch) or _reduction(inst) not in _known() or not _fits(inst):
            continue
        group = _Group(program, uses, i, rounds)
        group.grow()
        launch = group.launch()
        if launch is None:
            continue
        instructions[i] = launch
        removed.update(group.members)
        names += [program.instructions[k].node for k in sorted(group.members)]
    return rewritten(program, instructions, removed), PassResult("fuse_reductions", tuple(names))


def _known() -> tuple[str, ...]:
    """The reductions that the kernel has."""
    return kernels.contract("reduce_fused").parameters["reduction"].values


def _reduction(launch: Launch) -> str:
    return launch.kernel.removeprefix("reduce.")


def _fits(launch: Launch) -> bool:
    """Whether the kernel reads the elements in runs."""
    (out,), (source, *_) = launch.outputs, launch.inputs
    if out is None or not isinstance(source, Operand) or not is_static(source) or not is_static(out):
        return False
    real = launch.compute_dtype.is_floating_point
    if not real and (launch.compute_dtype.is_complex or _reduction(launch) not in ("sum", "prod")):
        return False
    if source.dtype.is_complex or 0 in source.sizes:
        return False
    whole = contiguous_strides(source.sizes)
    if merged(source.sizes, source.strides) != merged(source.sizes, whole):
        return False
    reduced = [d for d, size in enumerate(source.sizes) if size > 1 and launch.parameter("reduced") >> d & 1]
    kept = [d for d, size in enumerate(source.sizes) if size > 1 and d not in reduced]
    if not reduced or reduced != list(range(reduced[0], reduced[-1] + 1)):
        return False
    if kept and kept[-1] > reduced[-1]:  # by columns, of which there must be enough
        return prod(source.sizes[reduced[-1] + 1 :]) >= _FEW_OUTPUTS
    if len(merged(tuple(out.sizes[d] for d in kept), tuple(out.strides[d] for d in kept))) > 1:
        return False
    return prod(source.sizes[d] for d in reduced) > _SHORT_ROW or prod(source.sizes[d] for d in kept) < _FEW_OUTPUTS


@dataclass
class _Group:
    """A reduction and the launches that it takes in."""

    program: LinearProgram
    uses: Uses
    last: int
    rounds: bool
    members: set[int] = field(default_factory=set)

    def grow(self) -> None:
        """Takes in producers, from the reduction upwards, as long as all fits the kernel."""
        refused: set[int] = set()
        while True:
            found = self._candidates() - refused
            if not found:
                return
            candidate = max(found)
            self.members.add(candidate)
            if self.launch() is None:
                self.members.remove(candidate)
                refused.add(candidate)

    def _candidates(self) -> set[int]:
        program, uses = self.program, self.uses
        inside = self.members | {self.last}
        found = set()
        for i in inside:
            for operand in program.instructions[i].reads():
                writers = uses.writers[operand.buffer]
                if len(writers) != 1 or writers[0] in inside or not uses.is_private(operand.buffer):
                    continue
                inst = program.instructions[writers[0]]
                if not isinstance(inst, Launch) or not is_step(inst):
                    continue
                readers = uses.readers[operand.buffer]
                if not inside.issuperset(readers) or not uses.see_all_of(inst.writes()[0], readers):
                    continue
                if uses.may_move(writers[0], self.last):
                    found.add(writers[0])
        return found

    def launch(self) -> Launch | None:
        """The group as one launch; None when it does not fit the kernel."""
        reduction = self.program.instructions[self.last]
        assert isinstance(reduction, Launch)
        source = reduction.inputs[0]
        assert isinstance(source, Operand)
        builder = Builder(self.rounds)
        joined = [inst for i in sorted(self.members) if isinstance(inst := self.program.instructions[i], Launch)]
        if builder.add_all(joined, source.sizes) is None:
            return None
        program = builder.finish_with(source)
        if program is None or not any(isinstance(x, Operand) for x in builder.operands):
            return None
        given = {"reduced": reduction.parameter("reduced"), "reduction": _reduction(reduction)}
        inputs, dtype = tuple(builder.operands), reduction.compute_dtype
        nodes = reduction.computes_with(*joined)
        fused = Launch(
            "reduce_fused", reduction.outputs, inputs, dtype, node=reduction.node, program=program, fused=nodes
        )
        return fused.with_parameters(**given) if fits(fused) else None
