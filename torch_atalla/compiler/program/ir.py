# SPDX-License-Identifier: BSD-3-Clause
"""The linear program: kernel launches and host calls, in order, over buffers.

A buffer is a run of bytes. An operand sees a part of it under sizes and strides. So a view costs nothing, and the
memory planner needs to know no shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch

from torch_atalla.driver.dtypes import short_name

from . import kernels

if TYPE_CHECKING:
    from .vector_program import VectorProgram


class BufferKind(Enum):
    INPUT = "input"  # given by the caller
    OUTPUT = "output"  # given by the caller, written by the program
    CONSTANT = "constant"  # parameters, buffers, constants: in the file
    TEMPORARY = "temporary"  # placed in the arena by the memory planner
    STATE = "state"  # a mutable buffer: keeps its bytes from call to call
    UPDATED = "updated"  # given by the caller with a value, which the program reads and replaces


@dataclass
class Buffer:
    """A run of bytes. `tensor` holds the bytes of a constant, or the first ones of a state (dense, on the CPU)."""

    index: int
    kind: BufferKind
    name: str
    nbytes: int
    tensor: torch.Tensor | None = None

    def view(self, operand: Operand) -> torch.Tensor:
        """The values of an operand that lies in a constant."""
        assert self.tensor is not None
        start = self.tensor.storage_offset() + operand.offset // operand.dtype.itemsize
        return self.tensor.detach().as_strided(operand.sizes, operand.strides, start)

    def __str__(self) -> str:
        return f"{_PREFIX[self.kind]}{self.index}"


_PREFIX = {
    BufferKind.INPUT: "i",
    BufferKind.OUTPUT: "o",
    BufferKind.CONSTANT: "w",
    BufferKind.TEMPORARY: "t",
    BufferKind.STATE: "s",
    BufferKind.UPDATED: "u",
}
KEPT = (BufferKind.STATE, BufferKind.UPDATED)  # with a value before a call, and another after it


@dataclass(frozen=True)
class Operand:
    """A strided tensor inside a buffer. `offset` is in bytes, strides are in elements, 0 broadcasts."""

    buffer: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def extent(self) -> tuple[int, int]:
        """The bytes [begin, end) of the buffer that the operand touches. One without elements may have an offset behind
        the buffer's end, and touches [0, 0)."""
        if 0 in self.sizes:
            return 0, 0
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides))
        return self.offset, self.offset + (last + 1) * self.dtype.itemsize

    def __str__(self) -> str:
        text = f"{short_name(self.dtype)}[{', '.join(map(str, self.sizes))}]"
        if self.strides != contiguous_strides(self.sizes):
            text += f"{{{', '.join(map(str, self.strides))}}}"
        return text + (f"+{self.offset}" if self.offset else "")


@dataclass(frozen=True)
class Immediate:
    """An operand that is one value and not memory."""

    value: bool | int | float
    dtype: torch.dtype

    def __str__(self) -> str:
        value = repr(self.value) if type(self.value) in (bool, int, float) else str(self.value)
        return f"{value}:{short_name(self.dtype)}"


AnyOperand = Operand | Immediate | None  # None: an optional operand that is absent


@dataclass(frozen=True)
class Launch:
    """One kernel launch; csrc/sim/kernels.yaml defines its operands and parameters."""

    kernel: str
    outputs: tuple[Operand | None, ...]
    inputs: tuple[AnyOperand, ...]
    compute_dtype: torch.dtype
    iparams: tuple[int, ...] = ()
    fparams: tuple[float, ...] = ()
    node: str = ""
    program: VectorProgram | None = None  # of `fused`, and of kernels that end with one
    fused: tuple[str, ...] = ()  # other graph nodes that this launch computes as well
    parts: tuple[Launch, ...] = field(default=(), repr=False, compare=False)  # that became this one

    @property
    def contract(self) -> kernels.Contract:
        return kernels.contract(self.kernel)

    def parameter(self, name: str) -> Any:
        """A parameter by its name: a value, or a tuple of them if the parameter has several."""
        return kernels.unpack(self.kernel, self.compute_dtype, name, self.iparams, self.fparams)

    def with_parameters(self, /, **given: Any) -> Launch:
        """The launch with these parameters and no others."""
        iparams, fparams = kernels.pack(self.kernel, self.compute_dtype, given)
        return replace(self, iparams=iparams, fparams=fparams)

    def computes_with(self, *others: Launch) -> tuple[str, ...]:
        """All graph nodes of these launches and of this one except its own: `fused` of the launch that joins them."""
        nodes = [name for launch in (*others, self) for name in (*launch.fused, launch.node)]
        return tuple(name for name in dict.fromkeys(nodes) if name and name != self.node)

    def reads(self) -> tuple[Operand, ...]:
        return tuple(operand for operand in self.inputs if isinstance(operand, Operand))

    def writes(self) -> tuple[Operand, ...]:
        return tuple(operand for operand in self.outputs if operand is not None)


@dataclass(frozen=True)
class HostCall:
    """A fallback segment: `program` (loadable/host_call.py) maps the input operands to the output operands."""

    program: str
    ops: tuple[str, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    node: str = ""

    def reads(self) -> tuple[Operand, ...]:
        return self.inputs

    def writes(self) -> tuple[Operand, ...]:
        return self.outputs


Instruction = Launch | HostCall


@dataclass(frozen=True)
class Port:
    """An input or output of the program."""

    name: str
    operand: Operand


@dataclass
class LinearProgram:
    buffers: list[Buffer] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)  # of each instruction
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    values: dict[str, Operand] = field(default_factory=dict)  # what each graph node became, for listings
    states: dict[str, Operand] = field(default_factory=dict)  # mutable buffers by their names
    random_positions: int = 0  # of the random sequence, that a run takes; offsets of launches count from the first

    def lives(self) -> dict[int, tuple[int, int]]:
        """The first and the last instruction that touches each buffer."""
        lives: dict[int, tuple[int, int]] = {}
        for i, inst in enumerate(self.instructions):
            for operand in (*inst.reads(), *inst.writes()):
                lives[operand.buffer] = (lives.get(operand.buffer, (i, i))[0], i)
        return lives

    def __str__(self) -> str:
        lines = [_port_line("input", self, port) for port in self.inputs]
        lines += [f"{i:4d}  {_instruction_line(self, inst)}" for i, inst in enumerate(self.instructions)]
        lines += [_port_line("output", self, port) for port in self.outputs]
        return "\n".join(lines)


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides; those of dimensions beside a zero size are what torch gives."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _port_line(word: str, program: LinearProgram, port: Port) -> str:
    return f"{word:<7}{program.buffers[port.operand.buffer]} {port.operand}  {port.name}"


def _operand_text(program: LinearProgram, operand: AnyOperand) -> str:
    if isinstance(operand, Operand):
        return f"{program.buffers[operand.buffer]} {operand}"
    return "-" if operand is None else str(operand)


def _instruction_line(program: LinearProgram, inst: Instruction) -> str:
    def text(operands: tuple[AnyOperand, ...]) -> str:
        return ", ".join(_operand_text(program, operand) for operand in operands)

    if isinstance(inst, HostCall):
        return f"{'host_call':<20} {text(inst.outputs)} <- {text(inst.inputs)}  ops {', '.join(inst.ops)}"
    line = f"{inst.kernel:<20} {text(inst.outputs)} <- {text(inst.inputs)}"
    if inst.iparams:
        line += f"  i={list(inst.iparams)}"
    if inst.fparams:
        line += f"  f={list(inst.fparams)}"
    if inst.program is not None:
        line += f"  {{{inst.program}}}"
    return f"{line}  # {inst.node}" if inst.node else line
