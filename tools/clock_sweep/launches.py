# SPDX-License-Identifier: BSD-3-Clause
"""Random launches for tools.clock_sweep: of each kernel that has code, within its contract, in BF16 and integers."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

import torch_atalla
from torch_atalla import telemetry
from torch_atalla.compiler.program import ir
from torch_atalla.compiler.program.ir import Buffer, BufferKind, LinearProgram, Operand, Port
from torch_atalla.compiler.program.kernels import contract
from torch_atalla.compiler.schedule.chip_model import chip_model
from torch_atalla.compiler.targets.chip.clock import example
from torch_atalla.compiler.targets.chip.formulas.expression import formulas
from torch_atalla.compiler.targets.chip.generate import compile_networks
from torch_atalla.compiler.targets.chip.place import run_network
from torch_atalla.compiler.targets.chip.plain_launches import plain_launches
from torch_atalla.compiler.targets.chip.ports import separate_ports
from torch_atalla.driver import c_abi, isa_library
from torch_atalla.driver.dtypes import short_name
from torch_atalla.driver.extension import _C

from ..codegen import kernels
from ..codegen.contract.chip_launches import TORCH_DTYPES, Chip, Draw, Launch, descriptor
from ..codegen.kernels import Kernel

MOST_WORK = 1 << 12  # visits to elements: the scalar core takes hundreds of cycles for some
SAME = 0.02  # of the cycles
Row = tuple[str, int, int, str]  # op or kernel, reported and executed cycles, why they may differ
Charged = Callable[[int], int]  # the number that integers are -> cycles with the values for which launches are charged


class TorchDevice(Chip):
    """PyTorch's device, which charges launches."""

    def __init__(self) -> None:
        _C.properties(0)  # opens it
        library = isa_library.library()
        self.api = library.head
        self.device = ctypes.c_void_p(library.device(0)[0])
        self.stream = library.default_stream(library.device(0)[0])
        self.chip = replace(chip_model(_C.chip_config(0)), cores=1)
        self.overhead = torch_atalla.chip.config()["launch"]["overhead_cycles"]["value"]

    def reported(self, name: str, kernel: Kernel, launch: Launch) -> int | None:
        """What the device charges for the launch; None if the launch is refused or has no code."""
        stored = [None if x is None else storage(x).view(torch.uint8).to("atalla") for _, x in launch.operands]
        addresses = [
            0 if x is None or place is None else place.data_ptr() + int(x.storage_offset()) * x.itemsize
            for (_, x), place in zip(launch.operands, stored)
        ]
        desc = descriptor(self.kernel(name), kernel, launch, addresses)
        torch.accelerator.synchronize()
        telemetry.reset()
        status = self.api.launch(self.stream, ctypes.byref(desc), ctypes.sizeof(desc))
        if status | self.api.stream_synchronize(self.stream) != c_abi.ATALLA_OK:
            with contextlib.suppress(RuntimeError):  # the fault
                torch.accelerator.synchronize()
            return None
        found = telemetry.counters()
        return None if found.assumed_cycles or found.launches != 1 else found.cycles - self.overhead

    def executed(self, name: str, kernel: Kernel, launch: Launch) -> tuple[int, Charged]:
        """Cycles of the launch as a program of its own, with its values; and with those for which it is charged."""
        desc = descriptor(0, kernel, launch, [1] * len(launch.operands))
        iparams, fparams = tuple(desc.iparams), tuple(desc.fparams)

        def run(launch: Launch, fparams: tuple[float, ...], number: int | None) -> int:
            program, given = alone(name, launch, iparams, fparams)
            if number is not None:
                given = [example(port, number, k) for k, port in enumerate(program.inputs)]
            network = compile_networks([separate_ports(program)], {}, [""], self.chip, None, 1)[0]
            return run_network(network, network.code(), given, chip=0).stats.cycles

        charged = with_charged_values(launch)
        return run(launch, fparams, None), lambda number: run(charged, tuple(map(charged_number, fparams)), number)


def charged_number(value: float) -> float:
    """The constant of the code for which launches with this one are charged (csrc/sim/device/launch_kind.h)."""
    is_special = 2**-8 <= abs(value) <= 2**8 and value == torch.tensor(value).bfloat16().item()
    return value if value == 0 or not math.isfinite(value) or is_special else math.copysign(0.7, value)


def with_charged_values(launch: Launch) -> Launch:
    """The launch with those numbers for which it is charged in place of operands that are values."""
    operands = [
        (operand, torch.full_like(x, charged_number(x.item())))
        if k in launch.immediate and x is not None and x.is_floating_point()
        else (operand, x)
        for k, (operand, x) in enumerate(launch.operands)
    ]
    return replace(launch, operands=operands)


def storage(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,), 0)


def apart(row: Row) -> float:
    _, reported, executed, _ = row
    return abs(reported / executed - 1)


def why_apart(reported: int, executed: int, charged: Charged) -> str:
    """ "values" if the cycles are those reported only for the values with which launches are charged; else ""."""
    if abs(reported / executed - 1) <= SAME:
        return ""
    for number in (0, 1):
        with contextlib.suppress(Exception):  # values that the launch refuses
            return "values" if abs(reported / charged(number) - 1) <= SAME else ""
    return ""


def alone(
    name: str, launch: Launch, iparams: tuple[int, ...], fparams: tuple[float, ...]
) -> tuple[LinearProgram, list[torch.Tensor]]:
    """The launch as a program, and the program's inputs."""
    program, given = LinearProgram(), list[torch.Tensor]()
    written, read = list[Any](), list[Any]()
    for k, (operand, x) in enumerate(launch.operands):
        made: ir.AnyOperand = None
        if k in launch.immediate and x is not None:
            made = ir.Immediate(x.item(), x.dtype)
        elif x is not None:
            kind, number = BufferKind.OUTPUT if operand.written else BufferKind.INPUT, len(program.buffers)
            nbytes = max(x.itemsize, x.untyped_storage().nbytes())
            program.buffers.append(Buffer(number, kind, operand.name, nbytes))
            made = Operand(number, int(x.storage_offset()) * x.itemsize, tuple(x.shape), x.stride(), x.dtype)
            sizes = tuple(1 if step == 0 else n for n, step in zip(x.shape, x.stride()))
            port = Port(operand.name, replace(made, sizes=sizes))
            (program.outputs if operand.written else program.inputs).append(port)
            if not operand.written:
                given.append(x.as_strided(sizes, x.stride()))
        (written if operand.written else read).append(made)
    compute = TORCH_DTYPES[launch.dtype]
    read += [None] * (len(contract(name).inputs) - len(read))
    whole = ir.Launch(name, tuple(written), tuple(read), compute, trimmed(iparams), trimmed(fparams), "launch")
    program.instructions += plain_launches(program, whole)
    return program, given


def of_formula(kernel: Kernel, row: dict[str, Any]) -> Kernel:
    """The contract of pointwise kernels with the operands and parameters of one of them."""
    output, given = kernel.operands
    outputs = [replace(output, repeat=False, dtypes=_dtypes(kind)) for kind in row["results"]]
    inputs = [replace(given, repeat=False, name=name, dtypes=_dtypes(kind)) for name, kind in row["inputs"]]
    parameters = [
        replace(x, slot=replace(x.slot, count=count), integer=replace(x.integer, count=count), repeat=False)
        for x in kernel.parameters
        if x.integer is not None and (count := len(row["scalars"]))
    ]
    return replace(kernel, operands=(*outputs, *inputs), parameters=tuple(parameters))


def _dtypes(kind: str) -> tuple[str, ...]:
    return ("compute",) if kind in ("same", "real", "compute") else (short_name(getattr(torch, kind)).upper(),)


def trimmed(parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without those at the end that are 0, as absent ones are."""
    used = [k for k, value in enumerate(parameters, 1) if repr(value) not in ("0", "0.0")]
    return parameters[: max(used, default=0)]


def has_results(launch: Launch) -> bool:
    """Whether some result has elements: ops make no launch without any."""
    return any(x is not None and x.numel() for operand, x in launch.operands if operand.written)


def in_bf16(launch: Launch) -> bool:
    """Whether all numbers with a fraction are BF16. Others are charged by an assumption."""
    tensors = [x for k, (_, x) in enumerate(launch.operands) if x is not None and k not in launch.immediate]
    return all(x.dtype is torch.bfloat16 or not (x.is_floating_point() or x.is_complex()) for x in tensors)


def draws(device: TorchDevice, seed: int, only: str) -> Iterator[tuple[str, Kernel, Launch]]:
    """One kernel after another, without end."""
    choice = random.Random(seed)
    known = []
    for kernel in kernels.load(kernels.ROOT / kernels.TABLE).kernels:
        own = {name: kernel for name in kernel.names if kernel.values}
        if "formula" in kernel.traits:
            own = {name: of_formula(kernel, row) for name, row in formulas().items()}
        for name, kernel in own.items():
            dtypes = [x for x in device.dtypes(name) if x == "BF16" or not _has_fraction(TORCH_DTYPES[x])]
            if dtypes and only in name:
                known.append((name, kernel, dtypes, Draw(f"{name} {seed}", kernel, True, MOST_WORK)))
    for name, kernel, dtypes, draw in itertools.cycle(known):
        drawn = draw.launch(choice.choice(dtypes), long=choice.randrange(3) == 0)
        if in_bf16(drawn) and has_results(drawn):
            yield name, kernel, drawn
            if drawn.dtype == "BF16" and choice.randrange(3) == 0:
                yield from ((name, kernel, launch) for launch in of_one_charge(kernel, drawn, choice))


def of_one_charge(kernel: Kernel, launch: Launch, choice: random.Random) -> list[Launch]:
    """The launch with other numbers as parameters, twice: numbers of many digits, for which the device has one charge.
    Empty if no parameter is such a number."""

    def redrawn(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(redrawn, value))
        return choice.uniform(0.1, 0.9) if isinstance(value, float) else value

    free = [p.name for p in kernel.parameters if p.type in ("float", "number") and not p.values]
    if not any(isinstance(launch.parameters[name], (float, tuple)) for name in free):
        return []
    numbers = ({name: redrawn(launch.parameters[name]) for name in free} for _ in range(2))
    return [replace(launch, parameters=launch.parameters | drawn) for drawn in numbers]


def _has_fraction(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def measured_launches(number: int, seed: int, only: str) -> list[Row]:
    """So many random launches that have code."""
    device, rows = TorchDevice(), list[Row]()
    for name, kernel, launch in draws(device, seed, only) if number else ():
        reported = device.reported(name, kernel, launch)
        if reported is not None:
            executed, charged = device.executed(name, kernel, launch)
            rows.append((name, reported, executed, why_apart(reported, executed, charged)))
        if len(rows) == number:
            break
    return rows
