# SPDX-License-Identifier: BSD-3-Clause
"""Copies, conversions, concatenation, gathering by indices."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import torch

from ....program.ir import Launch, Operand, contiguous_strides
from ..kernels import scalar, truths
from ..kernels.pointwise import Layout, Unsupported, collapse
from ..network import element_bytes
from ..ports import RawOperand
from ..scalar_core import elementwise
from ..scalar_core.routine import emit
from ..selection import Selection, operands_of, selects
from . import pointwise
from .moves import MOST_FLIPPED, behind, emit_move, part, permuted

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)  # all have 32 or 64 bits in the program


@selects("copy")
def copy(s: Selection, launch: Launch) -> None:
    out, x = operands_of(launch)
    if isinstance(x, RawOperand) or isinstance(out, RawOperand):
        _copy_truths(s, launch, out, x)
    else:
        emit_copy(s, out, x)


def _copy_truths(s: Selection, launch: Launch, out: Operand, x: Operand) -> None:
    """Between the caller's bytes and the program's BF16."""
    order = sorted(range(len(out.sizes)), key=lambda d: -out.strides[d])
    ordered = [permuted(operand, order) for operand in (out, x)]
    layout = collapse(Layout(ordered[0].sizes, tuple(operand.strides for operand in ordered)))
    count = prod(out.sizes)
    if out.dtype is not torch.bool or layout.strides != ((1,), (1,)) or count < truths.PAIRS:
        raise Unsupported("elements as the caller stores them")
    widens = isinstance(x, RawOperand)
    s.calls(truths.build, truths.plan(count, widens), {"bytes": x if widens else out, "numbers": out if widens else x})
    if rest := count % truths.PAIRS:
        end, source = (replace(behind(o, count - rest), sizes=(rest,), strides=(1,)) for o in (out, x))
        emit(s, replace(launch, outputs=(end,), inputs=(source,)), elementwise.copy)


def emit_copy(s: Selection, out: Operand, x: Operand) -> None:
    if 0 in out.sizes:
        return
    if x.dtype in INTEGERS or out.dtype in INTEGERS:
        if x.dtype is not out.dtype or 0 in x.strides:
            raise Unsupported("a conversion or broadcast of integers")
        out, x = _halves(out), _halves(x)
    if out.dtype is torch.bool and x.dtype is not torch.bool:
        pointwise.emit(s, out, [x], (("ne", 0, 0.0),))
        return
    layout = collapse(Layout(out.sizes, (out.strides, x.strides)))
    if any(step == 0 and size > 1 for step, size in zip(layout.strides[1], layout.sizes)):
        pointwise.emit(s, out, [x], ())
        return
    emit_move(s, out, x)


def _halves(x: Operand) -> Operand:
    """Integers as pairs, or four, of what has the bytes of a BF16."""
    if element_bytes(x.dtype) != x.dtype.itemsize:
        raise Unsupported("integers that the program keeps in more bits")
    count = element_bytes(x.dtype) // torch.bfloat16.itemsize
    first = x.offset // x.dtype.itemsize * count * torch.bfloat16.itemsize
    strides = (*(step * count for step in x.strides), 1)
    return replace(x, offset=first, sizes=(*x.sizes, count), strides=strides, dtype=torch.bfloat16)


@selects("cat")
def cat(s: Selection, launch: Launch) -> None:
    """Each input into its range of the result."""
    (out,), dim, first = launch.outputs, launch.parameter("dim"), 0
    assert out is not None
    for x in launch.reads():
        emit_copy(s, part(out, x.sizes, [first if d == dim else 0 for d in range(len(x.sizes))]), x)
        first += x.sizes[dim]


@selects("index_select")
def index_select(s: Selection, launch: Launch) -> None:
    out, table, index = operands_of(launch, 2)
    if launch.parameter("dim") != 0:
        raise Unsupported("a gather along an inner dimension")
    _gather_rows(s, out, table, index, wraps=False)


def _gather_rows(s: Selection, out: Operand, table: Operand, index: Operand, *, wraps: bool) -> None:
    """wraps: negative indices count from the end."""
    dense = contiguous_strides(table.sizes[1:])
    if table.strides[1:] != dense or out.strides[1:] != dense or table.dtype is not torch.bfloat16:
        raise Unsupported("a gather of rows that are not contiguous BF16")
    if index.dtype not in INTEGERS:
        raise Unsupported("indices that are not integers")
    step = (index.strides[0] if index.sizes[0] > 1 else 1) * element_bytes(index.dtype)
    planned = scalar.plan_gather(
        index.sizes[0],
        prod(table.sizes[1:]),
        table.sizes[0],
        table.strides[0],
        out.strides[0],
        step,
        index.dtype is torch.int64,
        wraps,
    )
    s.calls(scalar.build_gather, [planned], {"table": table, "index": index, "out": out})


@selects("index")
def index(s: Selection, launch: Launch) -> None:
    """Advanced indexing by constants that amounts to a strided view; one index of rows is a gather."""
    (out,), (x, *indices) = launch.outputs, launch.inputs
    assert out is not None and isinstance(x, Operand)
    count, first = launch.parameter("count"), launch.parameter("first_dim")
    operands = [i for i in indices[:count] if isinstance(i, Operand)]
    if not all(s.is_constant(i) for i in operands):
        if count == 1 and first == 0 and len(operands) == 1 and len(operands[0].sizes) == 1:
            _gather_rows(s, out, x, operands[0], wraps=True)
            return
        raise Unsupported("indexing by several computed indices")
    place = torch.zeros((), dtype=torch.int64)
    for k, operand in enumerate(operands):
        values = s.tensor(operand)
        values = torch.where(values < 0, values + x.sizes[first + k], values)
        place = place + values * x.strides[first + k]
    shape = tuple(place.shape)
    steps = []
    for d, size in enumerate(shape):
        steps.append(int(place.select(d, 1).flatten()[0] - place.flatten()[0]) if size > 1 else 0)
    expected = place.flatten()[0]
    grid = torch.zeros(shape, dtype=torch.int64)
    for d, step in enumerate(steps):
        grid = grid + (torch.arange(shape[d]) * step).view([-1 if i == d else 1 for i in range(len(shape))])
    if not torch.equal(grid + expected, place.expand(shape)):
        raise Unsupported("indexing that is not a strided view")
    strides = (*x.strides[:first], *steps, *x.strides[first + count :])
    moved = Operand(x.buffer, x.offset + int(expected) * x.dtype.itemsize, out.sizes, strides, x.dtype)
    emit_copy(s, out, moved)


@selects("roll")
def roll(s: Selection, launch: Launch) -> None:
    """The pieces on both sides of each seam, each a copy."""
    out, x = operands_of(launch)
    shifts = launch.parameter("shift")
    parts = []
    for dim, size in enumerate(x.sizes):
        shift = int(shifts[dim]) % size if dim < len(shifts) else 0
        pieces = [(0, shift, size - shift), (size - shift, 0, shift)]  # first in x, first in out, number
        parts.append([piece for piece in pieces if piece[2]])
    for chosen in product(*parts):
        sizes = tuple(piece[2] for piece in chosen)
        emit_copy(s, *(part(o, sizes, [piece[k] for piece in chosen]) for o, k in ((out, 1), (x, 0))))


@selects("flip")
def flip(s: Selection, launch: Launch) -> None:
    """Positions of the flipped dimensions one by one, each as a dense block."""
    out, x = operands_of(launch)
    mask = launch.parameter("flipped")
    dims = [d for d, size in enumerate(x.sizes) if mask >> d & 1 and size > 1]
    blocks = prod(x.sizes[d] for d in dims)
    if blocks > MOST_FLIPPED:
        raise Unsupported(f"{blocks} blocks, whose order changes")
    order = [*dims, *(d for d in range(len(x.sizes)) if d not in dims)]
    x, target = permuted(x, order), permuted(out, order)
    if not dims:
        emit_copy(s, target, x)
        return
    before, after = s.new(x.sizes), s.new(x.sizes)
    emit_copy(s, before, x)
    last = sum((n - 1) * step for n, step in zip(before.sizes, before.strides[: len(dims)]))
    strides = tuple(-step if d < len(dims) else step for d, step in enumerate(before.strides))
    emit_move(s, after, replace(behind(before, last), strides=strides))
    emit_copy(s, target, after)
