# SPDX-License-Identifier: BSD-3-Clause
"""Over how many cores a launch is divided: as its code, run on the chip alone, takes the fewest cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from torch_atalla.isa.engine import ExecutionError

from ...program.ir import AnyOperand, Buffer, BufferKind, Instruction, Launch, LinearProgram, Operand, Port
from ...schedule.chip_model import ChipModel
from .divide import Division, divide
from .known_functions import known_functions
from .link import Function
from .network import Network, NoProgramError, element_bytes
from .place import run_network

LEAST_GAIN = 0.95  # of one core's cycles: barriers come before and after a divided launch
MOST_KNOWN = 4096

_known: dict[tuple[str, int, str], int | None] = {}  # cycles by chip file, cores and launch


Compile = Callable[[LinearProgram, ChipModel, dict[str, Function], int], Network]


def choose_division(program: LinearProgram, inst: Instruction, chip: ChipModel, generate: Compile) -> Division:
    """The division of an instruction that pays most; all cores where no code tells the cycles. generate: the code of a
    program, divided over so many cores, with known functions."""
    choices = list(_choices(inst, chip.program_cores))
    if len(choices) == 1 or not isinstance(inst, Launch):
        return choices[-1]
    cycles = [_cycles(program, inst, chip, len(choice.parts), generate) for choice in choices]
    known = [(count, i) for i, count in enumerate(cycles) if count is not None]
    if not known or cycles[0] is None:
        return choices[-1]
    least, best = min(known)
    return choices[best] if least < LEAST_GAIN * cycles[0] else choices[0]


def _choices(inst: Instruction, most: int) -> Iterator[Division]:
    """For 1, 2, 4 and so on cores, and all of them."""
    numbers = sorted({most, *(1 << k for k in range(most.bit_length()))})
    by_parts = {len(division.parts): division for division in (divide(inst, n) for n in numbers if n <= most)}
    yield from by_parts.values()


def _cycles(program: LinearProgram, launch: Launch, chip: ChipModel, cores: int, generate: Compile) -> int | None:
    """None if the launch has no code."""
    alone = _Alone(program, launch, cores).made
    key = (chip.text, cores, str(alone))
    if key not in _known:
        if len(_known) > MOST_KNOWN:
            _known.clear()
        _known[key] = _run(alone, replace(chip, cores=cores), cores, generate)
    return _known[key]


def _run(alone: LinearProgram, chip: ChipModel, cores: int, generate: Compile) -> int | None:
    try:
        network = generate(alone, chip, known_functions(chip), cores)
        given = [torch.zeros(port.operand.sizes, dtype=port.operand.dtype) for port in alone.inputs]
        return run_network(network, network.code(), given, chip=chip.text, cores=cores).stats.cycles
    except (NoProgramError, ExecutionError):
        return None


class _Alone:
    """A program of the launches that were joined, with buffers of their own."""

    def __init__(self, program: LinearProgram, launch: Launch, cores: int) -> None:
        """cores: of one, the scratchpads may keep temporaries of the program; between several, they pass the DRAM."""
        self.program, self.cores, self.made = program, cores, LinearProgram()
        self.numbers: dict[int, int] = {}
        parts = _parts(launch)
        self.results = {operand.buffer for operand in launch.writes()}
        self.written = {operand.buffer for part in parts for operand in part.writes()}
        for part in parts:
            inputs = tuple(map(self.moved, part.inputs))
            outputs = tuple(None if operand is None else self.operand(operand) for operand in part.outputs)
            self.made.instructions.append(replace(part, inputs=inputs, outputs=outputs, node="", fused=()))

    def moved(self, operand: AnyOperand) -> AnyOperand:
        return self.operand(operand) if isinstance(operand, Operand) else operand

    def operand(self, operand: Operand) -> Operand:
        if operand.buffer not in self.numbers:
            self.numbers[operand.buffer] = len(self.made.buffers)
            self.add_buffer(self.program.buffers[operand.buffer], operand.dtype)
        return replace(operand, buffer=self.numbers[operand.buffer])

    def add_buffer(self, buffer: Buffer, dtype: torch.dtype) -> None:
        number, elements, kind = len(self.made.buffers), buffer.nbytes // dtype.itemsize, self.kind(buffer)
        nbytes = max(buffer.nbytes, elements * element_bytes(dtype))
        self.made.buffers.append(Buffer(number, kind, f"value{number}", nbytes, buffer.tensor))
        ports = {BufferKind.INPUT: self.made.inputs, BufferKind.OUTPUT: self.made.outputs}.get(kind)
        if ports is not None:
            ports.append(Port(f"value{number}", Operand(number, 0, (elements,), (1,), dtype)))

    def kind(self, buffer: Buffer) -> BufferKind:
        between = buffer.index in self.written and buffer.index not in self.results
        if buffer.kind is BufferKind.CONSTANT:
            return BufferKind.CONSTANT
        if between or (self.cores == 1 and buffer.kind is BufferKind.TEMPORARY):
            return BufferKind.TEMPORARY
        return BufferKind.OUTPUT if buffer.index in self.results else BufferKind.INPUT


def _parts(launch: Launch) -> list[Launch]:
    return [plain for part in launch.parts for plain in _parts(part)] if launch.parts else [launch]
