# SPDX-License-Identifier: BSD-3-Clause
"""A partitioned graph becomes a linear program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_non_overlapping_and_dense

from .capture import Captured
from .errors import ExportError
from .host_call import encode_segment
from .ir import BufferKind, LinearProgram, Operand, Port
from .lower.context import LoweringContext, Value, dense_meta
from .lower.node import lower_node
from .partition import Partition, Segment
from .support import SupportTable, qualified_name


def linearize(captured: Captured, partition: Partition, support: SupportTable) -> LinearProgram:
    program = LinearProgram()
    ctx = LoweringContext(support, program)
    values = _placeholders(captured, ctx)
    for number, segment in enumerate(partition.segments):
        if segment.native:
            for node in segment.nodes:
                values[node] = lower_node(ctx, node, values)
        else:
            _lower_fallback(ctx, segment, values)
        program.segments += [number] * (len(program.instructions) - len(program.segments))
    _outputs(captured, ctx, values)
    if len(program.instructions) > len(program.segments):
        # Copies to outputs belong to the last segment, or to one of their own after a fallback.
        if not partition.segments or not partition.segments[-1].native:
            partition.segments.append(Segment(native=True))
        last = len(partition.segments) - 1
        program.segments += [last] * (len(program.instructions) - len(program.segments))
    for node, value in values.items():
        if isinstance(value, Value):
            program.values[node.name] = value.operand()
    return program


def _placeholders(captured: Captured, ctx: LoweringContext) -> dict[torch.fx.Node, Any]:
    values: dict[torch.fx.Node, Any] = {}
    shared: dict[tuple[int, int], int] = {}  # address and bytes of a stored tensor -> buffer
    tensors = {leaf.name for leaf in captured.inputs if leaf.is_tensor}
    for node in captured.graph.nodes:
        if node.name in captured.constants:
            values[node] = _constant(ctx, node.name, captured.constants[node.name].tensor, shared)
        elif node.op == "placeholder" and node.name in tensors:
            value = ctx.new_value(dense_meta(node.meta["val"]), BufferKind.INPUT, node.name)
            ctx.program.inputs.append(Port(node.name, value.operand()))
            values[node] = value
        elif node.op == "placeholder":
            values[node] = node.meta.get("val")
    return values


def _constant(ctx: LoweringContext, name: str, tensor: torch.Tensor, shared: dict[tuple[int, int], int]) -> Value:
    """Tied tensors, and views of all of one another's memory, share a buffer."""
    if not is_non_overlapping_and_dense(tensor) or tensor.device.type != "cpu":
        tensor = tensor.cpu().contiguous()
    meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    nbytes = tensor.numel() * tensor.dtype.itemsize
    key = (tensor.data_ptr(), nbytes)
    if key not in shared or nbytes == 0:
        shared[key] = ctx.new_buffer(BufferKind.CONSTANT, name, nbytes, tensor).index
    return Value(shared[key], meta)


def _lower_fallback(ctx: LoweringContext, segment: Segment, values: dict[torch.fx.Node, Any]) -> None:
    inside = set(segment.nodes)
    made: dict[torch.fx.Node, Any] = {}
    for node in segment.nodes:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor) and any(user not in inside for user in node.users):
            ctx.node = node.name
            if any(not isinstance(size, int) for size in val.shape):
                raise ExportError(
                    f"node {node.name} ({qualified_name(node.target)}) has a dynamic output size {tuple(val.shape)} "
                    "that leaves its fallback segment; expected specialised sizes"
                )
            made[node] = values[node] = ctx.result_of(node)
    inputs = list(dict.fromkeys(arg for node in segment.nodes for arg in node.all_input_nodes if arg not in inside))
    tensors = [node for node in inputs if isinstance(values[node], Value)]
    call = encode_segment(segment.nodes, tensors, list(made))
    ctx.program.instructions.append(
        replace(
            call,
            inputs=tuple(values[node].operand() for node in tensors),
            outputs=tuple(value.operand() for value in made.values()),
        )
    )


def _outputs(captured: Captured, ctx: LoweringContext, values: dict[torch.fx.Node, Any]) -> None:
    """Outputs live in memory of the caller. What a launch computed for an output is computed there; an input, a
    constant, a view of something else or a second mention is copied there."""
    program = ctx.program
    results: Any = captured.graph.output_node().args[0]
    taken: set[int] = set()
    for leaf, node in zip(captured.outputs, results, strict=True):
        if not leaf.is_tensor:
            continue
        value: Value = values[node]
        ctx.node = f"output_{leaf.name}"
        if _can_be_output(program, value, taken):
            program.buffers[value.buffer].kind = BufferKind.OUTPUT
        else:
            out = ctx.new_value(dense_meta(value.meta), BufferKind.OUTPUT, leaf.name)
            ctx.copy(out, value)
            value = out
        taken.add(value.buffer)
        program.outputs.append(Port(_unique(leaf.name, {port.name for port in program.outputs}), value.operand()))


def _unique(name: str, used: set[str]) -> str:
    """`name`, or `name_1`, ... when a value is returned more than once."""
    candidates = (f"{name}_{k}" if k else name for k in range(len(used) + 1))
    return next(candidate for candidate in candidates if candidate not in used)


def _can_be_output(program: LinearProgram, value: Value, taken: set[int]) -> bool:
    buffer = program.buffers[value.buffer]
    operand = value.operand()
    if buffer.kind is not BufferKind.TEMPORARY or value.buffer in taken or not _covers(operand, buffer.nbytes):
        return False
    return is_non_overlapping_and_dense(value.meta)


def _covers(operand: Operand, nbytes: int) -> bool:
    return operand.extent() == (0, nbytes)
