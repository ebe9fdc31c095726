# SPDX-License-Identifier: BSD-3-Clause
"""Dividing a launch among cores: each computes neighbouring places of one dimension of the result.

A dimension is one along which the kernel computes every place by itself. What an operand lacks of it, or broadcasts,
all cores read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from torch_atalla.isa.geometry import LANES

from ...program.ir import Instruction, Launch, Operand
from ...schedule.chip_model import ChipModel
from ...schedule.work import measure
from .fusion import Fused

LEAST_GAIN = 0.95  # of one core's cycles: on several, temporaries leave the scratchpads, and barriers come in between

_Any = TypeVar("_Any")


@dataclass(frozen=True)
class _Axis:
    """Where a dimension of the result is: its number in each output and each input, None where there is none."""

    outputs: Sequence[int | None]
    inputs: Sequence[int | None]


def divide(inst: Instruction, cores: int) -> list[Instruction]:
    """The parts of a launch, in order: one for each core, or fewer where the result has too few places."""
    if cores == 1 or not isinstance(inst, Launch) or _is_in_place(inst):
        return [inst]
    best: list[Instruction] = [inst]
    for axis in _axes(inst):
        pieces = _pieces(inst, axis, cores)
        if len(pieces) > len(best):
            best = [_part(inst, axis, first, count) for first, count in pieces]
    return best


def worthwhile(inst: Instruction, chip: ChipModel) -> int:
    """How many cores the launch takes by the functional engine's cycles: all of them where it knows none."""
    launches = inst.parts if isinstance(inst, Fused) and inst.parts else (inst,)
    works = [measure(launch, chip.geometry) for launch in launches if isinstance(launch, Launch)]
    known = [work for work in works if work is not None]
    if not known:
        return chip.program_cores
    cycles = {n: sum(chip.cycles(work, 0, n) for work in known) for n in range(1, chip.program_cores + 1)}
    best = min(cycles, key=lambda n: cycles[n])
    return best if cycles[best] < LEAST_GAIN * cycles[1] else 1


def _is_in_place(launch: Launch) -> bool:
    """Whether the launch writes what it reads at other places."""
    for out in launch.writes():
        for operand in launch.reads():
            same = (operand.offset, operand.sizes, operand.strides) == (out.offset, out.sizes, out.strides)
            if operand.buffer == out.buffer and not same:
                return True
    return False


def _axes(launch: Launch) -> Iterator[_Axis]:
    """Those of the launch, better ones first."""
    kernel, traits = launch.kernel, launch.contract.traits
    outputs, inputs = len(launch.outputs), len(launch.inputs)

    def alike(dims: Iterable[int]) -> Iterator[_Axis]:
        return (_Axis([d] * outputs, [d] * inputs) for d in dims)

    if kernel == "gemm":
        rest = [2] * (inputs - 2)
        yield _Axis([0], [0] * inputs)
        yield _Axis([2], [None, 2, *rest])
        yield _Axis([1], [1, None, *([1] * len(rest))])
    elif kernel == "convolution":
        yield _Axis([0], [0, None, *([None] * (inputs - 2))])
        if launch.parameter("groups") == 1:
            yield _Axis([1], [None, 0, *([0] * (inputs - 2))])
    elif kernel == "attention":
        yield _Axis([0] * outputs, [0] * inputs)
        query, key = launch.reads()[:2]
        if query.sizes[1] == key.sizes[1]:
            yield _Axis([1] * outputs, [1] * inputs)
    elif kernel in ("layer_norm", "rms_norm"):
        yield _Axis([0] * outputs, [0, *([None] * (inputs - 1))])
    elif kernel == "channel_norm.apply" or kernel.startswith("pool."):
        if len(launch.writes()) == 1 and kernel != "pool.scatter":
            yield from alike((0, 1))
    elif kernel in ("softmax", "log_softmax"):
        yield from alike(_without(launch, {launch.parameter("dim") % len(launch.writes()[0].sizes)}))
    elif kernel.startswith("reduce.") and "reduced" in launch.contract.parameters:
        mask = launch.parameter("reduced")
        yield from alike(_without(launch, {d for d in range(64) if mask >> d & 1}))
    elif kernel == "index_select":
        dim = launch.parameter("dim")
        yield _Axis([dim], [None, 0])
    elif "elementwise" in traits or kernel == "pointwise.steps":
        yield from alike(_without(launch, set()))


def _without(launch: Launch, taken: set[int]) -> list[int]:
    """The dimensions of the result that are not taken, those farthest apart in memory first. None if ranks differ."""
    out = launch.writes()[0]
    if any(len(operand.sizes) != len(out.sizes) for operand in (*launch.reads(), *launch.writes())):
        return []
    return sorted(set(range(len(out.sizes))) - taken, key=lambda d: -out.strides[d])


def _pieces(launch: Launch, axis: _Axis, cores: int) -> list[tuple[int, int]]:
    """The first place and the number of places of each part. Whole tiles where the dimension fills tiles."""
    narrowed = [(operand, d) for operand, d in _with_dims(launch, axis) if operand is not None and d is not None]
    out, dim = narrowed[0]
    size = out.sizes[dim]
    tiled = launch.kernel in ("gemm", "convolution") or any(operand.strides[d] == 1 for operand, d in narrowed)
    step = LANES if tiled and size > 1 and not (launch.kernel in ("gemm", "convolution") and dim == 0) else 1
    units = -(-size // step)
    count = min(cores, units)
    bounds = [min(size, units * i // count * step) for i in range(count + 1)]
    return [(first, end - first) for first, end in zip(bounds, bounds[1:])]


def _with_dims(launch: Launch, axis: _Axis) -> Iterator[tuple[Operand | None, int | None]]:
    for operand, d in [*zip(launch.outputs, axis.outputs), *zip(launch.inputs, axis.inputs)]:
        yield (operand if isinstance(operand, Operand) else None), d


def _part(launch: Launch, axis: _Axis, first: int, count: int) -> Launch:
    size = next(operand.sizes[d] for operand, d in _with_dims(launch, axis) if operand is not None and d is not None)

    def narrow(operand: _Any, d: int | None) -> _Any:
        if not isinstance(operand, Operand) or d is None or operand.sizes[d] != size:  # it broadcasts
            return operand
        sizes = (*operand.sizes[:d], count, *operand.sizes[d + 1 :])
        offset = operand.offset + first * operand.strides[d] * operand.dtype.itemsize
        return replace(operand, sizes=sizes, offset=offset)

    part = replace(
        launch,
        outputs=tuple(map(narrow, launch.outputs, axis.outputs)),
        inputs=tuple(map(narrow, launch.inputs, axis.inputs)),
    )
    if not isinstance(part, Fused):
        return part
    return replace(part, parts=(), residual=narrow(part.residual, axis.outputs[0]))
