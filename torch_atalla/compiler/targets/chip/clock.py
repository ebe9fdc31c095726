# SPDX-License-Identifier: BSD-3-Clause
"""What a single launch takes: its code is generated, and run once on a machine with the chip.

Numbers of the code are BF16. A launch that computes in another floating-point dtype is charged by an assumption, which
counters call assumed: the code of the same launch in BF16, times the ratio of the elements' bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from torch_atalla.driver import c_abi
from torch_atalla.driver.dtypes import DTYPES
from torch_atalla.driver.extension import _C
from torch_atalla.isa.engine import ExecutionError, Stats
from torch_atalla.isa.geometry import SCRATCHPAD_BYTES

from ...program.ir import Buffer, BufferKind, Immediate, Launch, LinearProgram, Operand, Port
from ...program.kernels import contract
from ...program.layouts import span
from ...schedule.chip_model import ChipModel
from .generate import compile_networks
from .place import run_network
from .ports import separate_ports

ASSUMED = {torch.float32: 2, torch.float64: 4, torch.float16: 1}  # by dtype: its bytes over those of BF16
_UNITS = {"vector_cycles": ("valu", "vmul", "vexp"), "array_cycles": ("gsau",)}


class UnknownCost(Exception):
    """No code tells what the launch takes."""


@dataclass(frozen=True)
class Charge:
    """Of one launch, without the chip's overhead of a launch. factor: by which an assumption multiplies what the code
    takes; 1 if the code is the launch's own."""

    stats: Stats
    factor: int
    assumed: bool

    def write(self, target: Any) -> None:
        """Into an atalla_launch_charge."""
        stats, factor = self.stats, self.factor
        target.scratchpad_bytes = 2 * SCRATCHPAD_BYTES  # code takes both whole
        target.cycles = factor * stats.cycles
        target.sdma_cycles = factor * min(stats.cycles, stats.bus_cycles)
        for name, units in _UNITS.items():
            busiest = max(stats.unit_cycles.get(unit, 0) for unit in units)
            setattr(target, name, factor * min(stats.cycles, busiest))
        target.dram_bytes_read = factor * stats.dram_bytes_read
        target.dram_bytes_written = factor * stats.dram_bytes_written
        target.macs = stats.macs
        for field in fields(stats.energy):
            if field.name not in ("standby", "leakage"):
                setattr(target.energy, field.name, factor * getattr(stats.energy, field.name))
        target.assumed = self.assumed


def charge(desc: c_abi.atalla_launch_desc, chip: ChipModel, ordinal: int | None) -> Charge:
    """Of a launch whose operands lie in DRAM. ordinal: of the device that has the chip; None for the built-in one.
    Raises UnknownCost, with the reason."""
    operands = [desc.operands[i] for i in range(desc.n_operands)]
    dtypes = {DTYPES[item.dtype] for item in operands} | {DTYPES[desc.compute_dtype]}
    if any(dtype.is_complex for dtype in dtypes):
        raise UnknownCost("complex numbers")
    program = _program(desc, operands)
    cores = max(1, min(desc.cores, chip.program_cores))
    chip = chip if cores > 1 else replace(chip, cores=1)
    try:
        network = compile_networks([separate_ports(program)], {}, [""], chip)[0]
        stats = _run(network, program, ordinal, cores)
    except Exception as error:  # whatever the code generator does not know
        raise UnknownCost(str(error)) from error
    compute = DTYPES[desc.compute_dtype]
    return Charge(stats, ASSUMED.get(compute, 1), compute in ASSUMED)


def _run(network: Any, program: LinearProgram, ordinal: int | None, cores: int) -> Stats:
    """With integers that are 0, or 1 where the code refuses 0."""
    for number in (0, 1):
        given = [_example(port.operand, number) for port in program.inputs]
        try:
            return run_network(network, network.code(), given, timing=True, chip=ordinal, cores=cores).stats
        except ExecutionError:
            if number == 1:
                raise
    raise AssertionError("unreachable")


def _example(operand: Operand, number: int) -> torch.Tensor:
    sizes: Any = operand.sizes
    if operand.dtype.is_floating_point:
        generator = torch.Generator().manual_seed(0)
        return torch.rand(sizes, generator=generator).mul(0.8).add(0.1).to(operand.dtype)
    return torch.full(sizes, number, dtype=operand.dtype)


def _narrow(dtype: torch.dtype) -> torch.dtype:
    return torch.bfloat16 if dtype in ASSUMED else dtype


def _program(desc: c_abi.atalla_launch_desc, operands: Sequence[Any]) -> LinearProgram:
    """The launch alone, each operand in memory of its own, as a program in BF16. Raises UnknownCost."""
    program, made = LinearProgram(), list[Any]()
    for number, item in enumerate(operands):
        dtype = _narrow(DTYPES[item.dtype])
        if item.immediate:
            raw = bytes(ctypes.string_at(ctypes.addressof(item.sizes), 16))
            value = torch.frombuffer(bytearray(raw), dtype=DTYPES[item.dtype], count=1).item()
            made.append(Immediate(value, dtype))
        elif item.addr == 0:
            made.append(None)
        else:
            made.append(_operand(program, item, dtype, number < desc.n_outputs))
    name = _C.kernels()[desc.kernel]
    inputs = made[desc.n_outputs :]
    inputs += [None] * (len(contract(name).inputs) - len(inputs))
    iparams, fparams = _given(list(desc.iparams)), _given(list(desc.fparams))
    outputs, compute = tuple(made[: desc.n_outputs]), _narrow(DTYPES[desc.compute_dtype])
    program.instructions.append(Launch(name, outputs, tuple(inputs), compute, iparams, fparams, "launch"))
    return program


def _operand(program: LinearProgram, item: Any, dtype: torch.dtype, written: bool) -> Operand:
    sizes, strides = tuple(item.sizes[: item.ndim]), tuple(item.strides[: item.ndim])
    offset = -sum((size - 1) * stride for size, stride in zip(sizes, strides) if stride < 0)
    if offset:
        raise UnknownCost("an operand that goes through memory backwards")
    kind = BufferKind.OUTPUT if written else BufferKind.INPUT
    number = len(program.buffers)
    nbytes = max(1, span(sizes, strides)) * dtype.itemsize
    program.buffers.append(Buffer(number, kind, f"operand{number}", nbytes))
    operand = Operand(number, 0, sizes, strides, dtype)
    (program.outputs if written else program.inputs).append(Port(f"operand{number}", operand))
    return operand


def _given(parameters: list[Any]) -> tuple[Any, ...]:
    """Without those at the end that are 0, as absent ones are."""
    while parameters and repr(parameters[-1]) in ("0", "0.0"):
        parameters.pop()
    return tuple(parameters)
