# SPDX-License-Identifier: BSD-3-Clause
"""Native and fallback segments, with a reason for every node that is not native.

A node is native if it can be lowered, which is tried on a scratch program: there is no second list that could disagree.
(torch.fx's CapabilityBasedPartitioner groups nodes into submodules; what a linear program needs is an order with few
changes of side, which is a stable list schedule.)
"""

from __future__ import annotations

import operator
import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError, UnsupportedOp

from ..capture.capture import Captured
from ..capture.triton_kernels import triton_kernel
from ..lower.context import LoweringContext
from ..lower.node import lower_node
from ..lower.recording import Trace
from ..program.ir import BufferKind, LinearProgram
from ..program.layouts import exact_meta
from ..program.random_nodes import draws
from ..program.sizes import Symbols, is_symbolic, lowering_with, to_size
from ..program.support import qualified_name

_PYTORCH = os.path.dirname(torch.__file__)


@dataclass
class Segment:
    """A run of nodes that execute on one side."""

    native: bool
    nodes: list[torch.fx.Node] = field(default_factory=list)


@dataclass
class Partition:
    segments: list[Segment]
    unsupported: list[UnsupportedOp]

    def __str__(self) -> str:
        lines = [
            f"segment {i} {'native' if segment.native else 'fallback'}: "
            + ", ".join(node.name for node in segment.nodes)
            for i, segment in enumerate(self.segments)
        ]
        return "\n".join(lines + [f"not native: {op}" for op in self.unsupported])


def partition(captured: Captured, traces: dict[Hashable, Trace] | None = None) -> Partition:
    """traces: recordings of nodes, which linearize takes as well."""
    reasons: dict[torch.fx.Node, str] = {}
    sizes = size_nodes(captured)
    nodes = [node for node in captured.graph.nodes if node.op == "call_function" and node not in sizes]
    for node in nodes:
        with lowering_with(captured.symbols):
            reason = _reason(node, traces)
        if reason is not None:
            reasons[node] = reason
    for node in nodes:
        # Parts of a fallback node's several results belong to it.
        if node.args and isinstance(node.args[0], torch.fx.Node) and _is_getitem(node):
            if node.args[0] in reasons:
                reasons[node] = reasons[node.args[0]]
            else:
                reasons.pop(node, None)
    unsupported = [_unsupported(node, reason) for node, reason in reasons.items() if _handles_tensors(node)]
    return Partition(segments_of(nodes, set(reasons)), unsupported)


def size_nodes(captured: Captured) -> set[torch.fx.Node]:
    """Nodes that compute with the sizes of inputs: no launch does, since the driver evaluates them."""
    return {
        node
        for node in captured.graph.nodes
        if node.op == "call_function" and is_symbolic(node.meta.get("val")) and _follows(node, captured.symbols)
    }


def _follows(node: torch.fx.Node, symbols: Symbols) -> bool:
    known = {symbol.symbol for symbol in symbols.symbols}
    return symbols.shape_env is not None and symbols.replace(node.meta["val"].node.expr).free_symbols <= known


def _is_getitem(node: torch.fx.Node) -> bool:
    return node.target is operator.getitem


def _handles_tensors(node: torch.fx.Node) -> bool:
    """Whether a node gives tensors, or reads their elements as an assertion does. Sizes, arithmetic on them, which
    follows an op of dynamic size, and parts of several results are excluded."""
    if _is_getitem(node) or qualified_name(node.target).startswith("aten::sym_"):
        return False
    values = [node.meta.get("val"), *(arg.meta.get("val") for arg in node.all_input_nodes)]
    return any(isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(values))


def _reason(node: torch.fx.Node, traces: dict[Hashable, Trace] | None) -> str | None:
    """Why the node cannot be lowered; None if it can."""
    if _is_getitem(node):
        return None
    if (kernel := triton_kernel(node)) is not None:
        return f"launches the Triton kernel {kernel} with sizes that differ from call to call"
    program = LinearProgram()
    ctx = LoweringContext(program, traces=traces)

    def value_of(val: Any) -> Any:
        if isinstance(val, (tuple, list)):
            return tuple(value_of(item) for item in val)
        return ctx.new_value(_any_meta(val), BufferKind.INPUT) if isinstance(val, torch.Tensor) else val

    try:
        lower_node(ctx, node, {arg: value_of(arg.meta.get("val")) for arg in node.all_input_nodes})
    except NotNativeError as error:
        return str(error)
    return None


def _any_meta(val: torch.Tensor) -> torch.Tensor:
    try:
        for size in val.shape:
            to_size(size)
    except NotNativeError:
        raise NotNativeError("dynamic input size") from None
    return exact_meta(val)


def segments_of(nodes: list[torch.fx.Node], fallback: set[torch.fx.Node]) -> list[Segment]:
    """Runs everything that is ready on one side before it changes to the other; graph order within a side."""
    known = set(nodes)
    waiting = {node: {arg for arg in node.all_input_nodes if arg in known} for node in nodes}
    drawing = [node for node in nodes if draws(node)]
    followers = dict(zip(drawing, drawing[1:]))  # they draw from one sequence
    for node, follower in followers.items():
        waiting[follower].add(node)
    segments: list[Segment] = []
    native = not (nodes and nodes[0] in fallback)
    while waiting:
        segment = Segment(native)
        for node in list(waiting):
            if (node not in fallback) == native and not waiting[node]:
                segment.nodes.append(node)
                del waiting[node]
                for user in (*node.users, *([followers[node]] if node in followers else [])):
                    waiting.get(user, set()).discard(node)
        if segment.nodes:
            segments.append(segment)
        native = not native
    return segments


def _unsupported(node: torch.fx.Node, reason: str) -> UnsupportedOp:
    dtypes = []
    for arg in node.all_input_nodes or [node]:
        val = arg.meta.get("val")
        if isinstance(val, torch.Tensor) and dtype_name(val.dtype) not in dtypes:
            dtypes.append(dtype_name(val.dtype))
        called: Any = node.args[0] if "auto_functionalized" in qualified_name(node.target) else node.target
    return UnsupportedOp(qualified_name(called), node.name, ", ".join(dtypes), reason, source_of(node))


def source_of(node: torch.fx.Node) -> str:
    """As "file.py:12": the innermost line outside of PyTorch, where the export kept it; else the innermost line."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    if not lines:
        return ""
    line = next((line for line in reversed(lines) if _PYTORCH not in line), lines[-1])
    parts = line.split('"')
    number = line.partition("line ")[2].split(",")[0].strip()
    return f"{parts[1].rpartition('/')[2]}:{number}"
