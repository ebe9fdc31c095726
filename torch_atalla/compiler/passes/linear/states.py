# SPDX-License-Identifier: BSD-3-Clause
"""Mutable buffers, and inputs that the program updates, are updated where they are.

Lowering gives every update as a new tensor that is copied over the state at the end. Where nothing reads the old value
in between, the new tensor is the state itself: a cache of keys is then written at one position, and not copied twice.
"""

from __future__ import annotations

from dataclasses import replace

from ...program.ir import KEPT, BufferKind, Instruction, Launch, LinearProgram, Operand
from ..pass_result import PassResult
from .layout import Uses
from .rewrite import renumbered, rewritten


def update_states_in_place(program: LinearProgram) -> tuple[LinearProgram, PassResult]:
    removed: list[str] = []
    while True:
        uses = Uses(program)
        found = next(filter(None, (_update(program, uses, i) for i in range(len(program.instructions)))), None)
        if found is None:
            return program, PassResult("update_states_in_place", tuple(removed))
        first, last, drop_first = found
        inst = program.instructions[last]
        old, new = inst.reads()[0].buffer, inst.writes()[0].buffer
        dropped = {last} | ({first} if drop_first else set())
        removed += [program.instructions[i].node for i in sorted(dropped)]
        program = _renamed(program, old, new, dropped)


def _update(program: LinearProgram, uses: Uses, last: int) -> tuple[int, int, bool] | None:
    """(first write of the new value, its copy over the state, whether the first write is a copy of the state)."""
    inst = program.instructions[last]
    if not _is_whole_copy(program, inst):
        return None
    state, temporary = inst.writes()[0], inst.reads()[0]
    if program.buffers[state.buffer].kind not in KEPT:
        return None
    if program.buffers[temporary.buffer].kind is not BufferKind.TEMPORARY:
        return None
    writers = uses.writers[temporary.buffer]
    if not writers or writers[0] >= last or writers[-1] > last:
        return None
    if any(writers[0] < i != last for i in (*uses.readers[state.buffer], *uses.writers[state.buffer])):
        return None
    first = program.instructions[writers[0]]
    if _is_whole_copy(program, first) and first.reads()[0] == state and first.writes()[0] == temporary:
        return writers[0], last, True
    if _touches(first.writes(), state.buffer):
        return None
    if _touches(first.reads(), state.buffer) and not _in_place(first, state, temporary):
        return None
    return writers[0], last, False


def _in_place(inst: Instruction, state: Operand, temporary: Operand) -> bool:
    """Whether the launch reads each element of the state only to write the same one."""
    if not isinstance(inst, Launch) or "in_place" not in inst.contract.traits:
        return False
    out = inst.writes()
    reads = [operand for operand in inst.reads() if operand.buffer == state.buffer]
    same = all(
        (r.offset, r.sizes, r.strides, r.dtype) == (o.offset, o.sizes, o.strides, o.dtype) for r in reads for o in out
    )
    return same and len(out) == 1 and out[0].buffer == temporary.buffer


def _is_whole_copy(program: LinearProgram, inst: Instruction) -> bool:
    """Of all bytes of one buffer to all of another, element for element."""
    if not isinstance(inst, Launch) or "conversion" not in inst.contract.traits:
        return False
    if not inst.reads() or not inst.writes():
        return False
    source, target = inst.reads()[0], inst.writes()[0]
    if (source.offset, source.sizes, source.strides, source.dtype) != (0, target.sizes, target.strides, target.dtype):
        return False
    if target.offset != 0 or source.extent() != target.extent():
        return False
    return all(operand.extent() == (0, program.buffers[operand.buffer].nbytes) for operand in (source, target))


def _touches(operands: tuple[Operand, ...], buffer: int) -> bool:
    return any(operand.buffer == buffer for operand in operands)


def _renamed(program: LinearProgram, old: int, new: int, dropped: set[int]) -> LinearProgram:
    values = {n: replace(v, buffer=new) if v.buffer == old else v for n, v in program.values.items()}
    instructions = [renumbered(inst, {old: new}) for inst in program.instructions]
    return rewritten(replace(program, values=values), instructions, dropped)
