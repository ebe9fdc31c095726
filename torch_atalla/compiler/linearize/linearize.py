# SPDX-License-Identifier: BSD-3-Clause
"""A partitioned graph becomes a linear program."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_atalla.loadable.errors import ExportError, NotNativeError

from ..capture.capture import Captured, Constant, check_dtype
from ..lower.context import LoweringContext
from ..lower.node import lower_node
from ..lower.recording import Trace
from ..lower.value import Value
from ..program.ir import KEPT, BufferKind, LinearProgram, Port
from ..program.layouts import dense_meta, exact_meta, input_meta, layout_of, once_meta, result_meta, stored
from ..program.size_expressions import collect_guards
from ..program.sizes import is_symbolic, lowering_with, size_of_data
from ..program.support import qualified_name
from .partition import Partition, Segment, size_nodes
from .segments import encode_segment


def linearize(
    captured: Captured,
    partition: Partition,
    *,
    keep_strides: bool = False,
    traces: dict[Hashable, Trace] | None = None,
) -> LinearProgram:
    """keep_strides: every value has the strides that it has in the exported program, not only inputs and results.
    traces: recordings that partition made."""
    program = LinearProgram()
    ctx = LoweringContext(program, keep_strides=keep_strides, traces=traces)
    with lowering_with(captured.symbols):
        values = _placeholders(captured, ctx)
        places = _places(captured, values)
        values |= {node: node.meta["val"] for node in size_nodes(captured)}
        for number, segment in enumerate(partition.segments):
            if segment.native:
                for node in segment.nodes:
                    values[node] = _lower(ctx, node, values)
            else:
                _lower_fallback(captured, ctx, segment, values)
            program.segments += [number] * (len(program.instructions) - len(program.segments))
        returned: Any = captured.graph.output_node().args[0]
        results: list[Any] = list(returned)
        _outputs(captured, ctx, values, results[len(captured.updates) :])
        _updates(captured, ctx, places, values, results[: len(captured.updates)])
        if len(program.instructions) > len(program.segments):
            # Copies to outputs and states belong to the last segment, or to one of their own after a fallback.
            if not partition.segments or not partition.segments[-1].native:
                partition.segments.append(Segment(native=True))
            last = len(partition.segments) - 1
            program.segments += [last] * (len(program.instructions) - len(program.segments))
        for node, value in values.items():
            if isinstance(value, Value):
                program.values[node.name] = value.operand()
    if captured.symbols.symbols:
        collect_guards(captured.symbols)
    return program


def _lower(ctx: LoweringContext, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
    try:
        return lower_node(ctx, node, values)
    except NotNativeError as error:  # the partitioner lowered it, in the exported layouts
        raise ExportError(
            f"node {node.name} ({qualified_name(node.target)}): {error}, for the layouts that passes gave to its "
            'inputs; use optimize="exact", and please report this'
        ) from None


def _placeholders(captured: Captured, ctx: LoweringContext) -> dict[torch.fx.Node, Any]:
    values: dict[torch.fx.Node, Any] = {}
    shared: dict[tuple[int, int], int] = {}  # address and bytes of a stored tensor -> buffer
    tensors = {leaf.name for leaf in captured.inputs if leaf.is_tensor}
    for node in captured.graph.nodes:
        if node.name in captured.constants:
            values[node] = _constant(ctx, node.name, captured.constants[node.name].tensor, shared)
        elif node.name in captured.states:
            state = captured.states[node.name]
            values[node] = _state(ctx, state)
            ctx.program.states[state.fqn] = values[node].operand()
        elif node.op == "placeholder" and node.name in captured.updates:
            meta = input_meta(node.meta["val"], captured.symbols)
            values[node] = ctx.new_strided_value(meta, BufferKind.UPDATED, node.name)
        elif node.op == "placeholder" and node.name in tensors:
            meta = input_meta(node.meta["val"], captured.symbols)
            value = ctx.new_strided_value(meta, BufferKind.INPUT, node.name)
            ctx.program.inputs.append(Port(node.name, value.operand()))
            values[node] = value
        elif node.op == "placeholder":
            values[node] = node.meta.get("val")
    return values


def _state(ctx: LoweringContext, state: Constant) -> Value:
    with unset_fake_temporarily():
        tensor = stored(state.tensor.cpu())
    nbytes = tensor.numel() * tensor.dtype.itemsize
    buffer = ctx.new_buffer(BufferKind.STATE, state.fqn, nbytes, tensor)
    return Value(buffer.index, exact_meta(tensor))


def _constant(ctx: LoweringContext, name: str, tensor: torch.Tensor, shared: dict[tuple[int, int], int]) -> Value:
    """Tied tensors, and views of all of one another's memory, share a buffer."""
    with unset_fake_temporarily():
        tensor = stored(tensor.cpu())
    meta = exact_meta(tensor)
    nbytes = tensor.numel() * tensor.dtype.itemsize
    key = (tensor.data_ptr(), nbytes)
    if key not in shared or nbytes == 0:
        shared[key] = ctx.new_buffer(BufferKind.CONSTANT, name, nbytes, tensor).index
    return Value(shared[key], meta)


def _lower_fallback(
    captured: Captured, ctx: LoweringContext, segment: Segment, values: dict[torch.fx.Node, Any]
) -> None:
    inside = set(segment.nodes)
    made: dict[torch.fx.Node, Any] = {}
    for node in segment.nodes:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor) and any(user not in inside for user in node.users):
            ctx.node = node.name
            if any(is_symbolic(size) and not _known(captured, size) for size in val.shape):
                raise ExportError(
                    f"node {node.name} ({qualified_name(node.target)}) has a size that leaves its fallback segment, "
                    f"{tuple(val.shape)}: {size_of_data(node.target)}"
                )
            check_dtype(node)
            made[node] = values[node] = ctx.result_of(node)
    inputs = list(dict.fromkeys(arg for node in segment.nodes for arg in node.all_input_nodes if arg not in inside))
    refused = [node for node in inputs if node.op == "get_attr"] or [node for node in inputs if node not in values]
    if refused:
        user = next(node for node in segment.nodes if refused[0] in node.all_input_nodes)
        reads = (
            "calls a nested graph, which a file has no room for; expected a program without branches and loops on "
            "tensors (torch.where selects without a branch)"
            if refused[0].op == "get_attr"
            else f"reads a number that {refused[0].name} ({qualified_name(refused[0].target)}) takes from a tensor in "
            "another segment; expected a tensor in its place"
        )
        raise ExportError(f"node {user.name} ({qualified_name(user.target)}) {reads}")
    tensors = [node for node in inputs if isinstance(values[node], Value)]
    call = encode_segment(segment.nodes, tensors, list(made))
    given = tuple(values[node].operand() for node in tensors)
    results = tuple(value.operand() for value in made.values())
    ctx.program.instructions.append(replace(call, inputs=given, outputs=results))


def _known(captured: Captured, size: Any) -> bool:
    try:
        captured.symbols.expression(size)
    except NotNativeError:
        return False
    return True


def _outputs(
    captured: Captured, ctx: LoweringContext, values: dict[torch.fx.Node, Any], results: list[torch.fx.Node]
) -> None:
    """Outputs live in memory of the caller, in the layout of the export. What a launch computed for an output is
    computed there; an input, a constant, a view of something else, a second mention or another layout is copied."""
    program = ctx.program
    taken: set[int] = set()
    exported = iter(captured.results)
    for leaf, node in zip(captured.outputs, results, strict=True):
        if not leaf.is_tensor:
            continue
        value: Value = values[node]
        ctx.node = f"output_{leaf.name}"
        meta = result_meta(value.meta, next(exported))
        if not _can_be_output(program, value, meta, taken):
            out = ctx.new_strided_value(meta, BufferKind.OUTPUT, leaf.name)
            _copy_once(ctx, out, value)
            value = out
        program.buffers[value.buffer].kind = BufferKind.OUTPUT
        taken.add(value.buffer)
        operand = replace(value.operand(), strides=layout_of(meta)[1])  # also of dimensions of one element
        program.outputs.append(Port(_unique(leaf.name, {port.name for port in program.outputs}), operand))


def _copy_once(ctx: LoweringContext, out: Value, value: Value) -> None:
    """Elements that share a place are written once."""
    target = once_meta(out.meta)
    if target is out.meta:
        ctx.copy(out, value)
    else:
        seen = value.meta.as_strided(target.shape, target.stride(), value.meta.storage_offset())
        ctx.copy(out.view(target), value.view(seen))


def _places(captured: Captured, values: dict[torch.fx.Node, Any]) -> dict[str, Value]:
    """Where the new values go that the graph's first results are, by the names in captured.updates."""
    names = {state.fqn: name for name, state in captured.states.items()}
    found = {node.name: value for node, value in values.items()}
    return {update: found[names.get(update, update)] for update in captured.updates}


def _updates(
    captured: Captured,
    ctx: LoweringContext,
    places: dict[str, Value],
    values: dict[torch.fx.Node, Any],
    results: list[torch.fx.Node],
) -> None:
    """The new values of states and of inputs. One that is a view of another such is copied aside first, before that is
    written."""
    program = ctx.program
    pending: list[tuple[Value, Value]] = []
    for update, node in zip(captured.updates, results, strict=True):
        place, value = places[update], values[node]
        ctx.node = f"update_{program.buffers[place.buffer].name}"
        if program.buffers[place.buffer].kind is BufferKind.UPDATED:
            program.outputs.append(Port(program.buffers[place.buffer].name, place.operand()))
        if value.operand() == place.operand():
            continue  # it keeps its value
        if program.buffers[value.buffer].kind in KEPT:
            aside = ctx.new_value(dense_meta(value.meta))
            ctx.copy(aside, value)
            value = aside
        pending.append((place, value))
    for place, value in pending:
        ctx.node = f"update_{program.buffers[place.buffer].name}"
        ctx.copy(place, value)


def _unique(name: str, used: set[str]) -> str:
    """`name`, or `name_1`, ... when a value is returned more than once."""
    candidates = (f"{name}_{k}" if k else name for k in range(len(used) + 1))
    return next(candidate for candidate in candidates if candidate not in used)


def _can_be_output(program: LinearProgram, value: Value, meta: torch.Tensor, taken: set[int]) -> bool:
    """Whether the value is all of a temporary, and lies in the layout of `meta`."""
    buffer, operand = program.buffers[value.buffer], value.operand()
    if buffer.kind is not BufferKind.TEMPORARY or value.buffer in taken:
        return False
    if operand.offset != 0 or operand.extent() != (0, buffer.nbytes):  # an empty view begins anywhere
        return False
    wanted = layout_of(meta)[1]
    moved = (size != 1 for size, a, b in zip(operand.sizes, operand.strides, wanted) if a != b)
    return 0 in operand.sizes or not any(moved)
