# SPDX-License-Identifier: BSD-3-Clause
"""What chip code does in one launch: a chain of steps on elements, or a residual addition and an activation at the end
of a matrix product or convolution. Launches that the passes joined take the forms that the code generator reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import isclose
from typing import Any

import torch

from torch_atalla.driver.dtypes import from_name

from ...passes.linear.fuse_epilogues import fuse_epilogues
from ...passes.linear.fuse_pointwise import fuse_pointwise
from ...passes.linear.layout import with_sizes
from ...passes.linear.target import Target
from ...program.ir import AnyOperand, Immediate, Instruction, Launch, LinearProgram, Operand
from ...program.layouts import same_layout
from ...program.vector_program import CONVERT, VectorProgram, loop_dtype, step_table
from .formulas.steps import number_of, steps_of
from .kernels.activation import ACTIVATIONS
from .kernels.pointwise import Chain, Step

MOST_STEPS, MOST_INPUTS = 24, 6
STEPS = "pointwise.steps"  # a kernel of the code alone
FUSED_KERNELS = {"gemm": "gemm_fused", "convolution": "convolution_fused", STEPS: "fused"}  # of the functional engine


@dataclass(frozen=True)
class Fused(Launch):
    """A `pointwise.steps` launch of `steps`, or a product with an epilogue: `residual`, of the result's sizes and
    strides, is added to its result, then `activation` is applied."""

    steps: tuple[Step, ...] = ()
    activation: str | None = None
    residual: Operand | None = None

    def reads(self) -> tuple[Operand, ...]:
        return super().reads() + ((self.residual,) if self.residual is not None else ())


def fuse(program: LinearProgram) -> list[Instruction]:
    """The instructions in an equivalent order, with fewer launches."""
    program = replace(program, segments=[0] * len(program.instructions))
    for join in (fuse_pointwise, fuse_epilogues):
        program, _ = join(program, rounds=False, target=CHIP)
    return [_chip_form(inst) for inst in program.instructions]


def _is_step(launch: Launch) -> bool:
    return "formula" in launch.contract.traits and steps_of(launch) is not None


def _takes(launch: Launch) -> bool:
    if launch.kernel != "fused":
        return _epilogue(launch) is not None
    steps = _steps(launch)
    return steps is not None and len(_operands(launch)) <= MOST_INPUTS and len(steps) <= MOST_STEPS


CHIP = Target(_is_step, _takes, reductions=False, code=True)


def _chip_form(inst: Instruction) -> Instruction:
    if not isinstance(inst, Launch):
        return inst
    parts = tuple(part for part in map(_chip_form, inst.parts) if isinstance(part, Launch))
    if inst.program is None:
        return _chain(inst, (inst,)) if _is_step(inst) else inst
    if inst.kernel == "fused":
        return _chain(inst, parts)
    epilogue = _epilogue(inst)
    assert epilogue is not None
    given = {f.name: getattr(inst.parts[0], f.name) for f in fields(Launch)} | {"node": inst.node, "parts": parts}
    return Fused(**given | epilogue)


def _chain(inst: Launch, parts: tuple[Launch, ...]) -> Fused:
    operands, steps = _operands(inst), _steps(inst)
    assert steps is not None
    return Fused(STEPS, inst.outputs, tuple(operands), inst.compute_dtype, node=inst.node, steps=steps, parts=parts)


def _epilogue(launch: Launch) -> dict[str, Any] | None:
    """Result, activation and residual of a product that ends with a vector program; None if the code has no such form.
    The residual and the result have the layout of the product."""
    out, program = launch.parts[0].outputs[0], launch.program
    assert out is not None and program is not None
    extras = launch.inputs[len(launch.contract.inputs) :]
    steps = _steps(replace(launch, inputs=(out, *extras)))
    others = [x for x in extras if isinstance(x, Operand)]
    if steps is None or len(launch.outputs) != 1 or len(others) > 1:
        return None
    additions, rest = steps[: len(others)], steps[len(others) :]
    if any(step not in (("add", 0, 1), ("add", 1, 0)) for step in additions) or len(rest) > 1:
        return None
    if any(step[0] not in ACTIVATIONS or len(step) > 2 for step in rest):
        return None
    seen = [None if x is None else with_sizes(x, out.sizes) for x in (launch.outputs[0], *others)]
    if any(x is None or x.dtype != out.dtype or not same_layout(out.sizes, x.strides, out.strides) for x in seen):
        return None
    result, *residual = (replace(out, buffer=x.buffer, offset=x.offset) for x in seen if x is not None)
    activation = rest[0][0] if rest else None
    return {"outputs": (result,), "activation": activation, "residual": residual[0] if residual else None}


def _operands(launch: Launch) -> list[Operand]:
    """Each once."""
    return list(dict.fromkeys(operand for operand in launch.inputs if isinstance(operand, Operand)))


def _steps(launch: Launch) -> tuple[Step, ...] | None:
    """Of an elementwise launch, or of the vector program of one; None where the code has none for a step."""
    operands = _operands(launch)
    met = launch.program.inputs if launch.program is not None else [launch.compute_dtype] * len(launch.inputs)
    values: list[int | float] = [
        operands.index(x) if isinstance(x, Operand) else number_of(x, dtype)
        for x, dtype in zip(launch.inputs, met, strict=True)
    ]
    chain = _Chain(len(operands))
    if launch.program is None:
        chain.add_launch(launch, values)
    elif not chain.add_program(launch.program, values, launch.inputs):
        return None
    return tuple(_simplify(chain.steps, len(operands)))


class _Chain(Chain):
    """A value is the number of an operand or step, or a constant."""

    def add_launch(self, launch: Launch, values: Sequence[int | float]) -> int | None:
        """The result of the launch on these values; None if it has no steps."""
        base = self.inputs + len(self.steps)
        made = steps_of(launch)
        for name, *parts in made or ():
            self.add(name, *(_renumbered(part, values, base) for part in parts))
        return None if made is None else self.inputs + len(self.steps) - 1

    def add_program(self, program: VectorProgram, values: list[int | float], operands: Sequence[AnyOperand]) -> bool:
        """Whether all steps of the program have been added. values, operands: what its inputs are."""
        dtypes, known = list(program.inputs), list(operands)
        for step in program.steps:
            if step.kernel == CONVERT:
                source, result = step.sources[0], step.dtype
                value = values[source]
                if result is torch.bool and dtypes[source] is not torch.bool:
                    value = self.add("ne", value, 0.0)
            else:
                inputs = tuple(x if isinstance(x := known[k], Immediate) else _value(dtypes[k]) for k in step.sources)
                kind = step_table()[step.kernel]
                result = loop_dtype(step.dtype) if kind.result in ("same", "real") else from_name(kind.result)
                launch = Launch(step.kernel, (_value(result),), inputs, step.dtype, step.iparams, step.fparams)
                found = self.add_launch(launch, [values[k] for k in step.sources])
                if found is None:
                    return False
                value = found
            values.append(value)
            dtypes.append(result)
            known.append(None)
        if len(program.outputs) != 1:
            return False
        if values[program.outputs[0]] != self.inputs + len(self.steps) - 1:
            self.add("round", values[program.outputs[0]])
        return True


def _value(dtype: torch.dtype) -> Operand:
    """What stands for a value when steps are chosen, which depend on its dtype."""
    return Operand(-1, 0, (), (), dtype)


def _renumbered(part: Any, values: Sequence[int | float], base: int) -> int | float:
    """In a formula, ("in", i) is operand i and ("step", i) the result of its own step i."""
    if isinstance(part, tuple):
        return values[part[1]] if part[0] == "in" else base + part[1]
    return part


def _gelu(x: int, v: int) -> list[Step]:
    """GELU of value x written out with tanh, as GPT-2 has it, where its first step gives value v."""
    return [
        ("mul", x, 0.5), ("mul", x, x), ("mul", v + 1, x), ("mul", v + 2, 0.044715), ("add", x, v + 3),
        ("mul", v + 4, 0.7978845608), ("tanh", v + 5), ("add", v + 6, 1.0), ("mul", v, v + 7),
    ]  # fmt: skip


def _simplify(steps: list[Step], inputs: int) -> list[Step]:
    """GELU written out becomes one step."""
    count = len(_gelu(0, 0))
    for start in range(len(steps) - count + 1):
        x, v = steps[start][1], inputs + start
        rest = steps[start + count :]
        if not isinstance(x, int) or not all(map(_alike, steps[start:], _gelu(x, v))):
            continue
        if any(v <= operand < v + count - 1 for step in rest for operand in step[1:] if isinstance(operand, int)):
            continue
        return _simplify([*steps[:start], ("gelu", x), *(_moved(step, v, count - 1) for step in rest)], inputs)
    return steps


def _alike(step: Step, other: Step) -> bool:
    """Whether steps differ by no more than constants do that were rounded."""
    return len(step) == len(other) and all(
        isclose(a, b, rel_tol=1e-4) if isinstance(b, float) and isinstance(a, float) else a == b
        for a, b in zip(step, other)
    )


def _moved(step: Step, first: int, shift: int) -> Step:
    parts = (p - shift if type(p) is int and p >= first + shift else p for p in step[1:])
    return (step[0], *parts)
