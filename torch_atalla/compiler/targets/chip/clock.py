# SPDX-License-Identifier: BSD-3-Clause
"""What a single launch takes: its code is generated, and run once on a machine with the chip.

Numbers of the code are BF16. A launch that computes in another floating-point or complex dtype is charged by an
assumption, which counters call assumed: the code of the same launch in BF16, times the ratio of the elements' bytes.
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
from torch_atalla.loadable.errors import ExportError

from ...program.ir import Buffer, BufferKind, Immediate, Launch, LinearProgram, Operand, Port
from ...program.kernels import contract, unpack
from ...program.layouts import span
from ...program.vector_program import VectorProgram, stripped
from ...schedule.chip_model import ChipModel
from .generate import compile_networks
from .kernels.pointwise import Unsupported
from .known_functions import known_functions
from .place import run_network
from .plain_launches import narrow, plain_launches
from .ports import separate_ports
from .tile_code import run_tile_program

FOUND_INF = "found_inf"  # an operand of optimizers: other than 0, they change nothing
_UNITS = {"vector_cycles": ("valu", "vmul", "vexp"), "array_cycles": ("gsau",)}


class UnknownCost(Exception):
    """No code tells what the launch takes."""


@dataclass(frozen=True)
class Charge:
    """Of one launch, without the chip's overhead of a launch. factor: by which an assumption multiplies what the code
    takes; 1 if the code is the launch's own. macs: 0 if the launch's descriptor tells them."""

    stats: Stats
    factor: int
    assumed: bool
    macs: int = 0

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
        for field in fields(stats.energy):
            if field.name not in ("standby", "leakage"):
                setattr(target.energy, field.name, factor * getattr(stats.energy, field.name))
        target.macs = self.macs
        target.assumed = self.assumed


def charge(desc: c_abi.atalla_launch_desc, words: Sequence[int], chip: ChipModel, ordinal: int | None) -> Charge:
    """Of a launch whose operands lie in DRAM. words: of its vector program, if it has one. ordinal: of the device that
    has the chip; None for the built-in one. Raises UnknownCost, with the reason."""
    if _C.kernels()[desc.kernel] == "tile_program":
        return _tile_charge(desc, ordinal)
    try:
        program = _program(desc, words)
    except (ExportError, Unsupported) as error:
        raise UnknownCost(str(error)) from error
    cores = max(1, min(desc.cores, chip.program_cores))
    chip = replace(chip, cores=cores)
    try:
        network = compile_networks([separate_ports(program)], {}, [""], chip, known_functions(chip), cores)[0]
        stats = _run(network, program, ordinal, cores)
    except Exception as error:  # whatever the code generator does not know
        raise UnknownCost(str(error)) from error
    compute = _computed(desc, words)
    assumed = compute is not torch.bfloat16 and _is_number(compute)
    return Charge(stats, compute.itemsize // torch.bfloat16.itemsize if assumed else 1, assumed)


def _tile_charge(desc: c_abi.atalla_launch_desc, ordinal: int | None) -> Charge:
    digest = unpack("tile_program", torch.float32, "digest", list(desc.iparams), ())
    sizes = [desc.operands[i].sizes[0] for i in range(desc.n_operands)]
    try:
        stats, factor, assumed = run_tile_program(digest, sizes, ordinal)
    except Exception as error:  # whatever the code generator does not know
        raise UnknownCost(str(error)) from error
    return Charge(stats, factor, assumed, stats.macs)


def _computed(desc: c_abi.atalla_launch_desc, words: Sequence[int]) -> torch.dtype:
    """The dtype that the launch computes in; of a vector program without a product, that of its numbers in memory."""
    operands = [DTYPES[desc.operands[i].dtype] for i in range(desc.n_operands - bool(words))]
    numbers = [dtype for dtype in operands if _is_number(dtype)]
    compute = DTYPES[desc.compute_dtype]
    if _C.kernels()[desc.kernel] not in ("fused", "reduce_fused") or not numbers:
        return compute
    return max(numbers, key=lambda dtype: dtype.itemsize)


def _run(network: Any, program: LinearProgram, ordinal: int | None, cores: int) -> Stats:
    """With integers that are 0, or 1 where the code refuses 0."""

    def run_with(number: int) -> Stats:
        given = [example(port, number, seed) for seed, port in enumerate(program.inputs)]
        return run_network(network, network.code(), given, timing=True, chip=ordinal, cores=cores).stats

    try:
        return run_with(0)
    except ExecutionError:
        return run_with(1)


def example(port: Port, number: int, seed: int = 0) -> torch.Tensor:
    """Values of an input with which launches are charged. number: that integers are."""
    operand = port.operand
    sizes: Any = operand.sizes
    if port.name == FOUND_INF:
        return torch.zeros(sizes, dtype=operand.dtype)
    if operand.dtype.is_floating_point:
        generator = torch.Generator().manual_seed(seed)
        return torch.rand(sizes, generator=generator).mul(0.8).add(0.1).to(operand.dtype)
    return torch.full(sizes, number, dtype=operand.dtype)


def _is_number(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _program(desc: c_abi.atalla_launch_desc, words: Sequence[int]) -> LinearProgram:
    """The launch alone, each operand in memory of its own, as a program in BF16. Raises UnknownCost."""
    program, made = LinearProgram(), list[Any]()
    operands = [desc.operands[i] for i in range(desc.n_operands - bool(words))]
    name, compute = _C.kernels()[desc.kernel], DTYPES[desc.compute_dtype]
    names = dict(enumerate(contract(name).inputs, desc.n_outputs))
    for number, item in enumerate(operands):
        if name == "gemm_packed" and number == desc.n_outputs + 1 and DTYPES[item.dtype] is not compute:
            raise UnknownCost("weights in another dtype than the product")
        dtype = narrow(DTYPES[item.dtype])
        if item.immediate:
            raw = bytes(ctypes.string_at(ctypes.addressof(item.sizes), 16))
            value = torch.frombuffer(bytearray(raw), dtype=DTYPES[item.dtype], count=1).item()
            made.append(Immediate(value.real if isinstance(value, complex) else value, dtype))
        elif item.addr == 0:
            made.append(None)
        else:
            named = names.get(number, f"operand{number}")
            constant = bool(desc.constants >> number & 1)
            place = item.addr % 4 if dtype.itemsize == 1 and not constant else 0
            made.append(_operand(program, named, item, dtype, place, number < desc.n_outputs))
            if constant:
                _make_constant(program)
    inputs = made[desc.n_outputs :]
    if not words:
        inputs += [None] * (len(contract(name).inputs) - len(inputs))
    iparams, fparams = stripped(desc.iparams), stripped(desc.fparams)
    steps = VectorProgram.decode(words) if words else None
    given = (tuple(made[: desc.n_outputs]), tuple(inputs), narrow(compute), iparams, fparams, "launch", steps)
    program.instructions += plain_launches(program, Launch(name, *given))
    return program


def _operand(program: LinearProgram, name: str, item: Any, dtype: torch.dtype, place: int, written: bool) -> Operand:
    """In a buffer of its own, which is a port. place: of bytes, where in a word of four they begin. One that goes
    through memory backwards begins behind the buffer's first element, and the port is all that it reaches."""
    sizes = tuple(item.sizes[: item.ndim])
    strides = tuple(abs(step) if n == 1 else step for n, step in zip(sizes, item.strides))
    back = -sum((n - 1) * step for n, step in zip(sizes, strides) if step < 0)
    first = back + (place - back) % 4 if dtype.itemsize == 1 else back
    elements = max(1, first + span(sizes, tuple(max(0, step) for step in strides)))
    number, kind = len(program.buffers), BufferKind.OUTPUT if written else BufferKind.INPUT
    program.buffers.append(Buffer(number, kind, name, elements * dtype.itemsize))
    operand = Operand(number, first * dtype.itemsize, sizes, strides, dtype)
    stored = tuple(1 if step == 0 else n for n, step in zip(sizes, strides))  # a caller has a broadcast element once
    whole = Operand(number, 0, (elements,), (1,), dtype) if back else replace(operand, sizes=stored)
    (program.outputs if written else program.inputs).append(Port(name, whole))
    return operand


def _make_constant(program: LinearProgram) -> None:
    """The operand that was added last, which code has in its own layout."""
    port, buffer = program.inputs.pop(), program.buffers[-1]
    program.buffers[-1] = replace(buffer, kind=BufferKind.CONSTANT, tensor=example(port, 0))
