# SPDX-License-Identifier: BSD-3-Clause
"""The memory planner, and the verifier that must find every way in which a plan can be wrong."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from torch_atalla.compiler.program.ir import Buffer, BufferKind, Launch, LinearProgram, Operand, Port
from torch_atalla.compiler.schedule.plan import ALIGNMENT, MemoryPlan, Slot, aligned, plan_memory
from torch_atalla.compiler.schedule.verify_plan import PlanError, verify_plan


class Builder:
    """Programs by hand: 1-d float tensors, one launch a line."""

    def __init__(self) -> None:
        self.program = LinearProgram()

    def buffer(self, kind: BufferKind, elements: int) -> Operand:
        index = len(self.program.buffers)
        self.program.buffers.append(Buffer(index, kind, f"b{index}", 4 * elements))
        return Operand(index, 0, (elements,), (1,), torch.float32)

    def input(self, elements: int) -> Operand:
        operand = self.buffer(BufferKind.INPUT, elements)
        self.program.inputs.append(Port(f"x{operand.buffer}", operand))
        return operand

    def launch(
        self, *inputs: Operand, elements: int = 0, kernel: str = "pointwise.add", output: bool = False
    ) -> Operand:
        kind = BufferKind.OUTPUT if output else BufferKind.TEMPORARY
        out = self.buffer(kind, elements or inputs[0].sizes[0])
        self.program.instructions.append(Launch(kernel, (out,), inputs, torch.float32))
        return out


def chain(length: int = 4, elements: int = 100, kernel: str = "pointwise.exp") -> LinearProgram:
    build = Builder()
    value = build.input(elements)
    for _ in range(length):
        value = build.launch(value, kernel=kernel)
    build.launch(value, kernel=kernel, output=True)
    return build.program


def test_pointwise_chain_runs_in_place() -> None:
    plan = plan_memory(chain())
    assert len(plan.slots) == 1 and len(plan.slots[0].buffers) == 4
    assert plan.arena_bytes == aligned(400)


def test_other_kernels_do_not_run_in_place() -> None:
    plan = plan_memory(chain(kernel="softmax"))
    assert all(len(slot.buffers) == 1 for slot in plan.slots)
    assert plan.arena_bytes == 2 * aligned(400)
    assert plan.unplanned_bytes == 4 * aligned(400)


def test_input_that_lives_on_is_not_overwritten() -> None:
    build = Builder()
    x = build.input(64)
    a = build.launch(x)
    b = build.launch(a)
    build.launch(a, b, output=True)
    plan = plan_memory(build.program)
    assert plan.slot_of()[a.buffer] is not plan.slot_of()[b.buffer]
    verify_plan(build.program, plan)


def test_other_layout_is_not_overwritten() -> None:
    build = Builder()
    a = build.launch(build.input(64))
    flipped = replace(a, sizes=(8, 8), strides=(1, 8))
    out = build.buffer(BufferKind.TEMPORARY, 64)
    out = replace(out, sizes=(8, 8), strides=(8, 1))
    build.program.instructions.append(Launch("pointwise.exp", (out,), (flipped,), torch.float32))
    build.launch(out, output=True)
    plan = plan_memory(build.program)
    assert plan.slot_of()[a.buffer] is not plan.slot_of()[out.buffer]


def test_input_read_twice_in_two_layouts_is_not_overwritten() -> None:
    build = Builder()
    a = build.launch(build.input(64))
    square, flipped = replace(a, sizes=(8, 8), strides=(8, 1)), replace(a, sizes=(8, 8), strides=(1, 8))
    out = replace(build.buffer(BufferKind.TEMPORARY, 64), sizes=(8, 8), strides=(8, 1))
    build.program.instructions.append(Launch("pointwise.add", (out,), (square, flipped), torch.float32))
    build.launch(out, output=True)
    plan = plan_memory(build.program)
    assert plan.slot_of()[a.buffer] is not plan.slot_of()[out.buffer]
    verify_plan(build.program, plan)


def test_large_pieces_are_placed_first_at_the_lowest_offset() -> None:
    build = Builder()
    x = build.input(16)
    small = build.launch(x, elements=16, kernel="softmax")
    large = build.launch(small, elements=1000, kernel="softmax")
    build.launch(large, kernel="softmax", output=True)
    slots = plan_memory(build.program).slot_of()
    assert slots[large.buffer].offset == 0 and slots[small.buffer].offset == aligned(4000)


def test_zero_size_values_need_no_place() -> None:
    build = Builder()
    build.launch(build.launch(build.input(0)), output=True)
    plan = plan_memory(build.program)
    assert plan.arena_bytes == 0 and plan.slots == ()
    verify_plan(build.program, plan)


def random_program(seed: int) -> LinearProgram:
    choose = random.Random(seed)
    build = Builder()
    values = [build.input(choose.randint(1, 300)) for _ in range(2)]
    for _ in range(40):
        inputs = choose.sample(values[-6:], k=min(2, len(values)))
        same = inputs[0].sizes == inputs[-1].sizes and choose.random() < 0.7
        if same:
            values.append(build.launch(*inputs))
        else:
            values.append(build.launch(*inputs, elements=choose.randint(1, 300), kernel="gemm"))
    build.launch(*values[-3:], kernel="gemm", output=True)
    return build.program


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int) -> None:
    program = random_program(seed)
    plan = plan_memory(program)
    verify_plan(program, plan)
    assert plan.lower_bound <= plan.arena_bytes <= plan.unplanned_bytes
    assert all(slot.offset % ALIGNMENT == 0 for slot in plan.slots)
    verify_plan(program, plan_memory(program, in_place=False))


def changed(plan: MemoryPlan, number: int, **fields: object) -> MemoryPlan:
    slots = list(plan.slots)
    slots[number] = replace(slots[number], **fields)  # type: ignore[arg-type]
    return replace(plan, slots=tuple(slots))


def test_verifier_finds_every_overlap() -> None:
    """Every pair of slots that live at once: moved onto each other, the verifier must see it."""
    program = chain(6, kernel="softmax")
    plan = plan_memory(program)
    found = 0
    for i, a in enumerate(plan.slots):
        for b in plan.slots:
            if a is not b and a.first <= b.last and b.first <= a.last and a.offset != b.offset:
                with pytest.raises(PlanError, match="overwrites|reads buffer"):
                    verify_plan(program, changed(plan, i, offset=b.offset))
                found += 1
    assert found >= 8


@pytest.mark.parametrize("seed", range(10))
def test_verifier_agrees_with_interval_arithmetic(seed: int) -> None:
    """Random placements: the replay finds a problem when, and only when, two live ranges share a byte."""
    program = random_program(seed)
    plan = plan_memory(program, in_place=False)
    choose = random.Random(seed)
    outcomes = set()
    for _ in range(30):
        slots = []
        for slot in plan.slots:
            moved = slot.offset if choose.random() < 0.95 else ALIGNMENT * choose.randint(0, 40)
            slots.append(replace(slot, offset=moved))
        broken = replace(plan, slots=tuple(slots), arena_bytes=max(s.offset + aligned(s.nbytes) for s in slots))
        overlap = any(
            a.first <= b.last and b.first <= a.last
            and a.offset < b.offset + aligned(b.nbytes) and b.offset < a.offset + aligned(a.nbytes)
            for k, a in enumerate(slots) for b in slots[:k]
        )  # fmt: skip
        # A value that nobody reads may be destroyed without harm; the programs below read all but such ones.
        unread = {slot.buffers[0] for slot in slots} - {o.buffer for i in program.instructions for o in i.reads()}
        if unread and overlap:
            continue
        if overlap:
            with pytest.raises(PlanError):
                verify_plan(program, broken)
        else:
            verify_plan(program, broken)
        outcomes.add(overlap)
    assert False in outcomes or outcomes == {True} or not outcomes


def test_verifier_checks_alignment_and_bounds() -> None:
    program = chain()
    plan = plan_memory(program)
    with pytest.raises(PlanError, match="expected a multiple of 64"):
        verify_plan(program, changed(plan, 0, offset=32))
    with pytest.raises(PlanError, match="leaves the arena"):
        verify_plan(program, changed(plan, 0, offset=plan.arena_bytes))
    with pytest.raises(PlanError, match="in a slot of"):
        verify_plan(program, changed(plan, 0, nbytes=8))
    with pytest.raises(PlanError, match="no place"):
        verify_plan(program, replace(plan, slots=()))
    twice = replace(plan, slots=(*plan.slots, plan.slots[0]))
    with pytest.raises(PlanError, match="placed twice"):
        verify_plan(program, twice)


def test_verifier_finds_illegal_in_place() -> None:
    """A kernel that is not pointwise, forced to overwrite its own input."""
    program = chain(2, kernel="softmax")
    first, second = (inst.outputs[0] for inst in program.instructions[:2])
    assert first is not None and second is not None
    slot = Slot((first.buffer, second.buffer), 0, 400, 0, 2)
    plan = MemoryPlan((slot,), aligned(400), aligned(400), 2 * aligned(400))
    with pytest.raises(PlanError, match="overwrites buffer"):
        verify_plan(program, plan)


def test_verifier_finds_reads_of_nothing() -> None:
    build = Builder()
    orphan = build.buffer(BufferKind.TEMPORARY, 16)
    build.launch(orphan, output=True)
    plan = MemoryPlan((Slot((orphan.buffer,), 0, 64, 0, 0),), 64, 64, 64)
    with pytest.raises(PlanError, match="where nothing was written"):
        verify_plan(build.program, plan)


def test_verifier_finds_operands_outside_their_buffer() -> None:
    build = Builder()
    x = build.input(16)
    build.launch(replace(x, sizes=(17,)), output=True)
    with pytest.raises(PlanError, match="which has 64"):
        verify_plan(build.program, plan_memory(build.program))
