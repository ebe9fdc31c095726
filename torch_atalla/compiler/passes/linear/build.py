# SPDX-License-Identifier: BSD-3-Clause
"""Launches become the steps of a vector program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from torch_atalla.driver.c_abi import ATALLA_MAX_OPERANDS
from torch_atalla.driver.dtypes import name as dtype_name

from ...program.ir import AnyOperand, Launch, Operand
from ...program.vector_program import CONVERT, Step, VectorProgram, loop_dtype, step_table
from .layout import same_elements, with_sizes

_HALF = (torch.float16, torch.bfloat16)


def is_step(launch: Launch) -> bool:
    """Whether the launch can be a step: one result, elementwise, real numbers, and nothing in it that may fault."""
    converts = "conversion" in launch.contract.traits
    if not converts and launch.kernel not in step_table():
        return False
    if len(launch.outputs) != 1 or launch.outputs[0] is None or launch.program is not None:
        return False
    out = launch.outputs[0]
    if 0 in out.sizes or out.dtype.is_complex or any(type(number) is not int for number in launch.iparams):
        return False
    for operand in launch.inputs:
        if operand is None or operand.dtype.is_complex:
            return False
        if isinstance(operand, Operand) and operand.sizes != out.sizes:
            return False
    if converts:
        return isinstance(launch.inputs[0], Operand)
    kind = step_table()[launch.kernel]
    compute = launch.compute_dtype
    if dtype_name(compute) not in kind.dtypes or compute.is_complex or len(kind.inputs) != len(launch.inputs):
        return False
    return compute.is_floating_point or not kind.integers_fault


def fits(launch: Launch) -> bool:
    """Whether a launch of a vector program is within the limits of the kernels."""
    assert launch.program is not None
    return launch.program.fits() and len(launch.outputs) + len(launch.inputs) + 1 <= ATALLA_MAX_OPERANDS


def viewed_launch(launch: Launch, sizes: tuple[int, ...], but: Operand | None = None) -> Launch | None:
    """An elementwise launch over operands of other sizes; None where strides do not allow it. but: what is known by
    its elements, whatever its sizes are."""

    def view(operand):
        known = not isinstance(operand, Operand) or (but is not None and same_elements(but, operand))
        return operand if known else with_sizes(operand, sizes)

    outputs, inputs = tuple(map(view, launch.outputs)), tuple(map(view, launch.inputs))
    return None if None in (*outputs, *inputs) else replace(launch, outputs=outputs, inputs=inputs)


class Builder:
    """Collects steps. `rounds`: results in 16-bit types are rounded where a launch would store them."""

    def __init__(self, rounds: bool):
        self.rounds = rounds
        self.operands: list[AnyOperand] = []  # what the inputs are
        self.dtypes: list[torch.dtype] = []  # and how the steps meet them
        self.steps: list[tuple[str, tuple[tuple[str, int], ...], torch.dtype, tuple, tuple]] = []
        self.registers: dict[tuple[str, int], torch.dtype] = {}
        self.made: list[tuple[Operand, tuple[str, int]]] = []  # what launches would have stored, and its value
        self.converted: dict[tuple[tuple[str, int], torch.dtype], tuple[str, int]] = {}

    def add_input(self, operand: AnyOperand, dtype: torch.dtype) -> tuple[str, int]:
        for k, (known, met) in enumerate(zip(self.operands, self.dtypes)):
            if met == dtype and known == operand and str(known) == str(operand):  # 0.0 and -0.0 differ
                return ("in", k)
        self.operands.append(operand)
        self.dtypes.append(dtype)
        value = ("in", len(self.operands) - 1)
        self.registers[value] = dtype
        return value

    def _step(
        self, kernel: str, sources: tuple, dtype: torch.dtype, result: torch.dtype, of: Launch | Step | None = None
    ):
        self.steps.append((kernel, sources, dtype, of.iparams if of else (), of.fparams if of else ()))
        value = ("step", len(self.steps) - 1)
        self.registers[value] = result
        return value

    def convert(self, value: tuple[str, int], dtype: torch.dtype) -> tuple[str, int]:
        if self.registers[value] == dtype:
            return value
        key = (value, dtype)
        if key not in self.converted:
            self.converted[key] = self._step(CONVERT, (value,), dtype, dtype)
        return self.converted[key]

    def stored(self, value: tuple[str, int], dtype: torch.dtype) -> tuple[str, int]:
        """The value as it is read again after a launch stored it in `dtype`."""
        if dtype in _HALF and self.registers[value] == torch.float32 and not self.rounds:
            return value
        return value if self.registers[value] == loop_dtype(dtype) == dtype else self.convert(value, dtype)

    def source(self, operand: AnyOperand, dtype: torch.dtype) -> tuple[str, int]:
        if isinstance(operand, Operand):
            for made, value in reversed(self.made):
                if same_elements(made, operand):
                    return self.convert(self.stored(value, operand.dtype), dtype)
        return self.add_input(operand, dtype)

    def add_all(self, launches: Iterable[Launch], sizes: tuple[int, ...]) -> list[Operand] | None:
        """Adds launches over operands of these sizes, and returns what each writes; None where strides do not allow
        it."""
        written: list[Operand] = []
        for launch in launches:
            viewed = viewed_launch(launch, sizes)
            if viewed is None:
                return None
            self.add(viewed)
            written += viewed.writes()
        return written

    def add(self, launch: Launch) -> None:
        if launch.program is not None:
            self._add_program(launch, launch.program)
            return
        out = launch.outputs[0]
        assert out is not None
        if "conversion" in launch.contract.traits:
            source = launch.inputs[0]
            assert isinstance(source, Operand)
            value = self.source(source, loop_dtype(source.dtype))
            if out.dtype in _HALF and source.dtype.itemsize > out.dtype.itemsize and not self.rounds:
                value = self.convert(value, out.dtype)  # a conversion that the program asks for rounds at every level
            # A step of its own, even where nothing changes: it may be an output.
            value = self._step(CONVERT, (value,), loop_dtype(out.dtype), loop_dtype(out.dtype))
        else:
            kind, compute = step_table()[launch.kernel], launch.compute_dtype
            loop = loop_dtype(compute)
            pairs = zip(launch.inputs, kind.input_dtypes(loop))
            sources = tuple(self.source(operand, dtype) for operand, dtype in pairs)
            value = self._step(launch.kernel, sources, compute, kind.result_dtype(loop), launch)
        self.made.append((out, value))

    def add_first_input(self, out: Operand) -> None:
        """As it is, as one more output."""
        self.made.append((out, self._step(CONVERT, (("in", 0),), self.dtypes[0], self.dtypes[0])))

    def _add_program(self, launch: Launch, program: VectorProgram) -> None:
        values = [self.source(operand, dtype) for operand, dtype in zip(launch.inputs, program.inputs, strict=True)]
        for step in program.steps:
            sources = tuple(values[source] for source in step.sources)
            values.append(self._step(step.kernel, sources, step.dtype, step.dtype, step))
        self.made += zip(launch.writes(), (values[output] for output in program.outputs), strict=True)

    def finish_with(self, operand: Operand) -> VectorProgram | None:
        """The program whose output is what would be read of `operand`, rounded to its dtype; None: no step made it."""
        for made, value in reversed(self.made):
            if same_elements(made, operand):
                self.made.append((operand, self.stored(value, operand.dtype)))
                return self.finish([operand])
        return None

    def finish(self, outputs: list[Operand]) -> VectorProgram:
        """The program that writes `outputs`, each of which a launch made."""
        number = {("in", k): k for k in range(len(self.operands))}
        number |= {("step", i): len(self.operands) + i for i in range(len(self.steps))}
        steps = tuple(
            Step(kernel, tuple(number[source] for source in sources), dtype, iparams, fparams)
            for kernel, sources, dtype, iparams, fparams in self.steps
        )
        made = {id(operand): value for operand, value in self.made}
        return VectorProgram(tuple(self.dtypes), steps, tuple(number[made[id(out)]] for out in outputs))
