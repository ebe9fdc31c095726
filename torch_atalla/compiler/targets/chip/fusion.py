# SPDX-License-Identifier: BSD-3-Clause
"""Fusion before code is selected: pointwise launches that follow one another become one; a residual addition and an
activation join the matrix product or convolution before them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from ...program.ir import BufferKind, HostCall, Immediate, Instruction, Launch, LinearProgram, Operand
from .formulas import steps_of
from .kernels.activation import ACTIVATIONS
from .kernels.pointwise import Step

MOST_STEPS, MOST_INPUTS = 24, 6
WITH_EPILOGUE = ("gemm", "convolution")
STEPS = "pointwise.steps"  # a kernel of the code alone
FUSED_KERNELS = {"gemm": "gemm_fused", "convolution": "convolution_fused", STEPS: "fused"}  # of the functional engine


@dataclass(frozen=True)
class Fused(Launch):
    """A `pointwise.steps` launch of `steps`, or a product with an epilogue: `residual`, of the result's sizes and
    strides, is added to its result, then `activation` is applied."""

    steps: tuple[Step, ...] = ()
    parts: tuple[Launch, ...] = ()  # the launches that became this one
    activation: str | None = None
    residual: Operand | None = None

    def reads(self) -> tuple[Operand, ...]:
        return super().reads() + ((self.residual,) if self.residual is not None else ())


def fuse(program: LinearProgram) -> list[Instruction]:
    """The instructions in an equivalent order, with fewer launches."""
    return _epilogues(program, _pointwise(program))


def uses(program: LinearProgram, instructions: list[Instruction]) -> dict[int, list[int]]:
    """Buffer -> places that read it; outputs of the program are read at the end."""
    found: dict[int, list[int]] = {}
    for place, inst in enumerate(instructions):
        for operand in inst.reads():
            found.setdefault(operand.buffer, []).append(place)
    for port in program.outputs:
        found.setdefault(port.operand.buffer, []).append(len(instructions))
    return found


def _pointwise(program: LinearProgram) -> list[Instruction]:
    result: list[Instruction] = []
    group: list[Launch] = []
    rest = list(program.instructions)
    reads = uses(program, rest)

    def flush() -> None:
        if group:
            result.extend(_join(program, group, reads))
            group.clear()

    for inst in rest:
        if isinstance(inst, HostCall) or "formula" not in inst.contract.traits or steps_of(inst) is None:
            flush()
            result.append(inst)
            continue
        if group and group[0].outputs[0].sizes != inst.outputs[0].sizes:  # type: ignore[union-attr]
            flush()
        group.append(inst)
    flush()
    return result


def _join(program: LinearProgram, group: list[Launch], reads: dict[int, list[int]]) -> list[Instruction]:
    """One launch for the longest tails of the group whose intermediate results nobody else reads."""
    places = {id(inst): place for place, inst in enumerate(program.instructions)}
    start = 0
    made: list[Instruction] = []
    while start < len(group):
        end = len(group)
        while end > start + 1 and not _closed(program, group[start:end], reads, places):
            end -= 1
        made.append(_one(group[start:end]))
        start = end
    return made


def _closed(program: LinearProgram, group: list[Launch], reads: dict[int, list[int]], places: dict[int, int]) -> bool:
    inside = {places[id(inst)] for inst in group}
    for inst in group[:-1]:
        out = inst.outputs[0]
        assert out is not None
        if program.buffers[out.buffer].kind is not BufferKind.TEMPORARY:
            return False
        if any(place not in inside for place in reads.get(out.buffer, [])):
            return False
        if sum(other.outputs[0].buffer == out.buffer for other in group) > 1:  # type: ignore[union-attr]
            return False
    made = {inst.outputs[0]: None for inst in group}
    inputs = set()
    for inst in group:
        for operand in inst.inputs:
            if isinstance(operand, Operand):
                if operand not in made and any(operand.buffer == out.buffer for out in made if out is not None):
                    return False  # another view of an intermediate result
                inputs.add(operand)
    steps = sum(len(steps_of(inst) or ()) for inst in group)
    return len(inputs - set(made)) <= MOST_INPUTS and steps <= MOST_STEPS


def _one(group: list[Launch]) -> Launch:
    made: dict[Operand, int] = {}
    inputs: list[Operand] = []
    outs = set()
    for inst in group:
        for operand in inst.inputs:
            # An operand that is read before the group writes it (in place) is an input.
            if isinstance(operand, Operand) and operand not in inputs and operand not in outs:
                inputs.append(operand)
        outs.add(inst.outputs[0])
    steps: list[Step] = []
    number = {operand: i for i, operand in enumerate(inputs)}
    for inst in group:
        values: list[int | float] = []
        for operand in inst.inputs:
            if isinstance(operand, Operand):
                values.append(made.get(operand, number.get(operand, -1)))
                assert values[-1] != -1, "an operand of a fused launch has no value"
            elif isinstance(operand, Immediate):
                is_truth = torch.bool in (inst.compute_dtype, operand.dtype)
                values.append(float(bool(operand.value)) if is_truth else float(operand.value))
        base = len(inputs) + len(steps)
        for step in steps_of(inst) or ():
            steps.append((step[0], *(_renumber(part, values, base) for part in step[1:])))
        out = inst.outputs[0]
        assert out is not None
        made[out] = len(inputs) + len(steps) - 1
    last, joined = group[-1], tuple(_simplify(steps, len(inputs)))
    return Fused(
        STEPS,
        last.outputs,
        tuple(inputs),
        last.compute_dtype,
        node=last.node,
        steps=joined,
        parts=tuple(group),
    )


def _renumber(part: object, values: list[int | float], base: int) -> object:
    """In a formula, ("in", i) is operand i and ("step", i) the result of its own step i."""
    if isinstance(part, tuple):
        return values[part[1]] if part[0] == "in" else base + part[1]
    return part


GELU = ("mul", "mul", "mul", "mul", "add", "mul", "tanh", "add", "mul")


def _simplify(steps: list[Step], inputs: int) -> list[Step]:
    """GELU written out with tanh, as GPT-2 has it, becomes one step."""
    from math import isclose

    for start in range(len(steps) - len(GELU) + 1):
        part = steps[start : start + len(GELU)]
        if tuple(step[0] for step in part) != GELU:
            continue
        v = inputs + start
        half, square, cube, scaled, total, inner, th, one, out = part
        x = half[1]
        matches = (
            half[2] == 0.5
            and square[1:] == (x, x)
            and cube[1:] == (v + 1, x)
            and scaled[1] == v + 2
            and isclose(scaled[2], 0.044715, rel_tol=1e-4)
            and total[1:] == (x, v + 3)
            and inner[1] == v + 4
            and isclose(inner[2], 0.7978845608, rel_tol=1e-4)
            and th[1:] == (v + 5,)
            and one[1:] == (v + 6, 1.0)
            and out[1:] == (v, v + 7)
        )
        later = [operand for step in steps[start + len(GELU) :] for operand in step[1:] if isinstance(operand, int)]
        if not matches or any(v <= operand < v + len(GELU) - 1 for operand in later):
            continue
        shift = len(GELU) - 1

        rest = [_moved(step, v, shift) for step in steps[start + len(GELU) :]]
        return _simplify([*steps[:start], ("gelu", x), *rest], inputs)
    return steps


def _moved(step: Step, first: int, shift: int) -> Step:
    parts = (p - shift if type(p) is int and p >= first + shift else p for p in step[1:])
    return (step[0], *parts)


def _epilogues(program: LinearProgram, instructions: list[Instruction]) -> list[Instruction]:
    """An addition, an activation or both, behind a product or convolution whose result nothing else reads."""
    reads = uses(program, instructions)
    result: list[Instruction] = []
    gone: set[int] = set()
    for place, inst in enumerate(instructions):
        if place in gone:
            continue
        if not isinstance(inst, Launch) or inst.kernel not in WITH_EPILOGUE:
            result.append(inst)
            continue
        out = inst.outputs[0]
        assert out is not None
        readers = reads.get(out.buffer, [])
        after = instructions[readers[0]] if len(readers) == 1 and readers[0] < len(instructions) else None
        if (
            isinstance(after, Fused)
            and (epilogue := _epilogue(after, out)) is not None
            and not ("activation" in inst.contract.parameters and inst.parameter("activation") != "none")
            and _can_move(instructions, epilogue, place, readers[0])
        ):
            gone.add(readers[0])
            given = {f.name: getattr(inst, f.name) for f in fields(Launch)} | {"outputs": epilogue.outputs}
            given |= {"activation": epilogue.activation, "residual": epilogue.residual}
            result.append(Fused(**given, parts=(inst, after)))
            continue
        result.append(inst)
    return result


def _epilogue(after: Fused, out: Operand) -> Fused | None:
    """The launch as an epilogue of the product that writes `out`, with operands in the form of `out`; None if it is
    none. It reads all that the product wrote, and keeps its layout."""
    target = after.writes()[0]
    source, *others = sorted(after.reads(), key=lambda operand: operand.buffer != out.buffer)
    additions, rest = after.steps[: len(others)], after.steps[len(others) :]
    form = (source.sizes, source.strides, out.dtype)
    if (
        len(others) > 1
        or any(step not in (("add", 0, 1), ("add", 1, 0)) for step in additions)
        or len(rest) > 1
        or any(step[0] not in ACTIVATIONS for step in rest)
        or any((x.sizes, x.strides, x.dtype) != form for x in (target, *others))
        or (source.extent(), source.offset) != (out.extent(), out.offset)
    ):
        return None
    if any(x.buffer == target.buffer and x.offset != target.offset for x in others):
        return None
    result, *residual = (replace(out, buffer=x.buffer, offset=x.offset) for x in (target, *others))
    activation = rest[0][0] if rest else None
    return replace(after, outputs=(result,), activation=activation, residual=residual[0] if residual else None)


def _can_move(instructions: list[Instruction], epilogue: Fused, first: int, end: int) -> bool:
    """Whether the epilogue may run with the product at `first`: it writes nothing that the product reads, and between
    the two no instruction writes its residual, or uses its result."""
    target = epilogue.writes()[0].buffer
    between = instructions[first + 1 : end]
    if any(operand.buffer == target for inst in instructions[first:end] for operand in inst.reads()):
        return False
    if any(operand.buffer == target for inst in between for operand in inst.writes()):
        return False
    residual = epilogue.residual
    return residual is None or not any(x.buffer == residual.buffer for inst in between for x in inst.writes())
