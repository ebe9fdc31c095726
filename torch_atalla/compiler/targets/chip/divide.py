# SPDX-License-Identifier: BSD-3-Clause
"""Dividing a launch among cores: each computes neighbouring places of one dimension of the result.

A dimension is one along which the kernel computes every place by itself. What an operand lacks of it, or broadcasts,
all cores read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from torch_atalla.isa.geometry import LANES

from ...program import kernels
from ...program.index_maps import Labels, dimensions, holds, size_of
from ...program.ir import Instruction, Launch, Operand
from .fusion import FUSED_KERNELS, STEPS, Fused

_Any = TypeVar("_Any")
WORD = 4  # bytes of DRAM that a core writes at once: of narrower elements it keeps the others of their word


@dataclass(frozen=True)
class _Lines:
    """Of an image whose windows give the places of a dimension: input 0 along its own dimension of that number."""

    spatial: int  # of the parameters
    window: int
    stride: int
    padding: int

    def read(self, first: int, count: int, size: int) -> tuple[int, int, int]:
        """For `count` places from `first` on: the first line, the number of lines, and the zeros before them."""
        start = first * self.stride - self.padding
        begin, end = max(0, start), min(size, start + (count - 1) * self.stride + self.window)
        return begin, end - begin, begin - start


@dataclass(frozen=True)
class _Axis:
    """Where a dimension of the result is: its number in each output and each input, None where there is none."""

    outputs: Sequence[int | None]
    inputs: Sequence[int | None]
    lines: _Lines | None = None


@dataclass(frozen=True)
class Division:
    """The parts of a launch, in order, and a mask of the operands (outputs first) that all of them read whole."""

    parts: list[Instruction]
    shared: int = 0


def divide(inst: Instruction, cores: int) -> Division:
    """One part for each core, or fewer where the result has too few places."""
    if cores == 1 or not isinstance(inst, Launch) or _is_in_place(inst):
        return Division([inst])
    best = Division([inst])
    for axis in _axes(inst):
        pieces = _pieces(inst, axis, cores)
        if len(pieces) > len(best.parts) and _have_own_words(inst, axis, [first for first, _ in pieces[1:]]):
            shared = (operand is not None and d is None for operand, d in _with_dims(inst, axis))
            mask = sum(1 << k for k, reads_all in enumerate(shared) if reads_all)
            best = Division([_part(inst, axis, first, count) for first, count in pieces], mask)
    return best


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
    contract = kernels.contract(FUSED_KERNELS[launch.kernel]) if launch.kernel == STEPS else launch.contract
    outputs = dimensions(contract, True, launch.outputs, launch)
    inputs = dimensions(contract, False, launch.inputs, launch)
    for loop in contract.loops:
        if not holds(loop, contract, launch):
            continue
        names = {loop.name, *loop.condition} if len(loop.condition) == 2 else {loop.name}
        if not loop.name.startswith("*"):
            axis = _axis(outputs, inputs, names, loop.over)
            yield axis if loop.kind == "parallel" else replace(axis, lines=_lines(launch, contract, loop))
        elif loop.kind == "window":
            first, over = (f"{name}.0" for name in (loop.name, loop.over))
            yield replace(_axis(outputs, inputs, {first}, over), lines=_lines(launch, contract, loop))
        else:
            for label in _by_distance(launch, loop.name, outputs):
                yield _axis(outputs, inputs, {label}, "")


def _axis(outputs: Sequence[Labels], inputs: Sequence[Labels], names: set[str], over: str) -> _Axis:
    def place(labels: Labels, wanted: set[str]) -> int | None:
        return next((d for d, label in enumerate(labels) if label in wanted), None)

    return _Axis([place(o, names) for o in outputs], [place(i, {*names, over} - {""}) for i in inputs])


def _by_distance(launch: Launch, group: str, outputs: Sequence[Labels]) -> list[str]:
    """The dimensions of a group, those farthest apart in memory first. None if ranks differ."""
    out = launch.writes()[0]
    if any(len(operand.sizes) != len(out.sizes) for operand in (*launch.reads(), *launch.writes())):
        return []
    found = [(d, label) for d, label in enumerate(outputs[launch.outputs.index(out)]) if label.startswith(f"{group}.")]
    return [label for d, label in sorted(found, key=lambda item: -out.strides[item[0]])]


def _lines(launch: Launch, contract: kernels.Contract, loop: kernels.Loop) -> _Lines:
    def of_axis(name: str, absent: int) -> int:
        if name not in contract.parameters:
            return absent
        value = launch.parameter(name)  # one for each spatial dimension, or for the one that there is
        return int(value[loop.axis] if isinstance(value, tuple) else value)

    places = size_of(loop.size, contract, launch, loop.axis)
    return _Lines(loop.axis, (places - 1) * of_axis("dilation", 1) + 1, of_axis("stride", 1), of_axis("padding", 0))


def _pieces(launch: Launch, axis: _Axis, cores: int) -> list[tuple[int, int]]:
    """The first place and the number of places of each part: whole tiles where the dimension fills tiles or has many
    places."""
    narrowed = [(operand, d) for operand, d in _with_dims(launch, axis) if operand is not None and d is not None]
    out, dim = narrowed[0]
    size, matrix = out.sizes[dim], launch.contract.traits & {"product", "convolution"}
    tiled = (matrix and dim != 0) or (not matrix and size >= 2 * LANES) or any(o.strides[d] == 1 for o, d in narrowed)
    step = LANES if tiled and size > 1 and axis.lines is None else 1
    units = -(-size // step)
    count = max(1, min(cores, units))
    bounds = [min(size, units * i // count * step) for i in range(count + 1)]
    return [(first, end - first) for first, end in zip(bounds, bounds[1:])]


def _have_own_words(launch: Launch, axis: _Axis, firsts: Sequence[int]) -> bool:
    """Whether no two parts write into one word of DRAM. firsts: the first places of all parts but the first."""
    for out, d in zip(launch.outputs, axis.outputs):
        if not isinstance(out, Operand) or d is None or out.dtype.itemsize >= WORD:
            continue
        width, stride = out.dtype.itemsize, out.strides[d]
        others = [(n, s) for k, (n, s) in enumerate(zip(out.sizes, out.strides)) if k != d and n > 1]
        inner = sum((n - 1) * s for n, s in others if s < stride)
        begins = [out.offset + first * stride * width for first in firsts]
        outer = [s * width for _, s in others if s >= stride]
        if inner >= stride or any(place % WORD for place in (*begins, *outer)):
            return False
    return True


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

    outputs, inputs = tuple(map(narrow, launch.outputs, axis.outputs)), launch.inputs
    if axis.lines is None:
        part = replace(launch, outputs=outputs, inputs=tuple(map(narrow, inputs, axis.inputs)))
    else:
        part = _part_of_lines(replace(launch, outputs=outputs), axis, first, count)
    if not isinstance(part, Fused):
        return part
    return replace(part, parts=(), residual=narrow(part.residual, axis.outputs[0]))


def _part_of_lines(launch: Launch, axis: _Axis, first: int, count: int) -> Launch:
    """With the lines of the image that the windows reach."""
    assert axis.lines is not None
    image = next(k for k, d in enumerate(axis.inputs) if d is not None)
    operand, dim = launch.inputs[image], axis.inputs[image]
    assert isinstance(operand, Operand) and dim is not None
    begin, lines, zeros = axis.lines.read(first, count, operand.sizes[dim])
    sizes = (*operand.sizes[:dim], lines, *operand.sizes[dim + 1 :])
    offset = operand.offset + begin * operand.strides[dim] * operand.dtype.itemsize
    inputs = (*launch.inputs[:image], replace(operand, sizes=sizes, offset=offset), *launch.inputs[image + 1 :])
    given = {name: launch.parameter(name) for name in launch.contract.parameters}
    spatial, before = axis.lines.spatial, given.get("padding", 0)
    if isinstance(before, tuple):
        given["padding"] = (*before[:spatial], zeros, *before[spatial + 1 :])
    elif "padding" in given:
        given["padding"] = zeros
    return replace(launch, inputs=inputs).with_parameters(**given)
