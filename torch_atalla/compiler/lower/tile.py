# SPDX-License-Identifier: BSD-3-Clause
"""Launches of tile programs, whose kernels compute addresses: operands are whole buffers, in the exported strides."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_atalla.driver.dtypes import ALL
from torch_atalla.loadable.errors import NotNativeError

from ..program.ir import BufferKind, Launch, Operand
from ..program.layouts import exact_meta, layout_of, span
from ..tile.launch import LoadedProgram, named
from .context import LoweringContext
from .registry import lowers
from .value import Value

aten = torch.ops.aten
_NEW = {
    packet
    for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "zeros", "zeros_like", "full", "full_like")
    for packet in (getattr(aten, name), getattr(aten, f"new_{name}", None))
}


@lowers("tile_program_copy.default", namespace="atalla", dtypes=ALL, operands=ALL, promotes=True)
def tile_program_copy(
    ctx: LoweringContext,
    node: torch.fx.Node,
    *,
    tensors: Sequence[Value],
    written: Sequence[int],
    program: str,
    operands: Sequence[int],
    numbers: Sequence[int],
    grid: Sequence[int],
) -> tuple[Value, ...]:
    loaded = named[program]
    if loaded.program.reads_addresses:
        raise NotNativeError(f"{loaded.program.name} reads addresses in memory, which differ from run to run")
    given: list[torch.fx.Node] = node.args[0]  # type: ignore[assignment]
    held = [_with_strides(ctx, value, source.meta["val"]) for value, source in zip(tensors, given, strict=True)]
    for i in written:
        if not _is_own(node, given[i]) or ctx.program.buffers[held[i].buffer].kind is not BufferKind.TEMPORARY:
            held[i] = _copy_of(ctx, held[i])
    _launch(ctx, loaded, held, written, operands, numbers, grid)
    return tuple(held[i] for i in written)


def _launch(
    ctx: LoweringContext,
    loaded: LoadedProgram,
    tensors: Sequence[Value],
    written: Sequence[int],
    operands: Sequence[int],
    numbers: Sequence[int],
    grid: Sequence[int],
) -> None:
    outputs = list(dict.fromkeys(tensors[i].buffer for i in written))
    inputs = list(dict.fromkeys(tensors[i].buffer for i in operands if i >= 0 and tensors[i].buffer not in outputs))
    try:
        places = loaded.operands(outputs, inputs)
    except ValueError as error:
        raise NotNativeError(str(error)) from None
    arguments = [
        (-1, number) if i < 0 else (places[tensors[i].buffer], tensors[i].operand().offset + number)
        for i, number in zip(operands, numbers, strict=True)
    ]
    words, digest = loaded.with_arguments(arguments, grid)
    constant = ctx.new_buffer(BufferKind.CONSTANT, ctx.node, words.nbytes, words).index
    program = Operand(constant, 0, tuple(words.shape), (1,), torch.int64)
    ctx.program.instructions.append(
        Launch(
            "tile_program",
            tuple(_whole(ctx, buffer) for buffer in outputs),
            (*(_whole(ctx, buffer) for buffer in inputs), program),
            torch.float32,
            (*grid, digest),
            (),
            ctx.node,
        )
    )


def _whole(ctx: LoweringContext, buffer: int) -> Operand:
    return Operand(buffer, 0, (ctx.program.buffers[buffer].nbytes,), (1,), torch.uint8)


def _with_strides(ctx: LoweringContext, value: Value, exported: torch.Tensor) -> Value:
    """The value in the strides that the kernel was given; the stride of a size of one is never used."""
    (sizes, wanted), found = layout_of(exported), value.operand().strides
    if 0 in sizes or all(size == 1 or a == b for size, a, b in zip(sizes, wanted, found, strict=True)):
        return value
    out = ctx.new_strided_value(exact_meta(exported))
    place, source = out.meta, value.meta
    for dim, stride in enumerate(wanted):
        if stride == 0:  # one element of memory for all
            place, source = place.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    ctx.copy(out.view(place), value.view(source))
    return out


def _is_own(node: torch.fx.Node, source: torch.fx.Node) -> bool:
    """Whether the launch may write its argument: a new tensor, or a result of another launch, which nothing else
    reads."""
    if len(source.users) != 1 or node.args[0].count(source) != 1:  # type: ignore[union-attr, arg-type]
        return False
    if isinstance(source.target, torch._ops.OpOverload):
        return source.target.overloadpacket in _NEW
    first = source.args[0] if source.args else None
    return isinstance(first, torch.fx.Node) and first.target is node.target


def _copy_of(ctx: LoweringContext, value: Value) -> Value:
    """A value of the same strides in a buffer of its own, with the elements between its own."""
    operand = value.operand()
    count = span(operand.sizes, operand.strides)
    meta = exact_meta(value.meta)
    out = Value(ctx.new_buffer(BufferKind.TEMPORARY, ctx.node, count * value.dtype.itemsize).index, meta)
    flat = torch.empty(count, dtype=value.dtype, device="meta")
    if count:
        source = flat.as_strided((count,), (1,), value.meta.storage_offset())
        ctx.launch("copy", [out.view(flat)], [value.view(source)], value.dtype)
    return out
