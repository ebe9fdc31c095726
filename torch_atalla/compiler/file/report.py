# SPDX-License-Identifier: BSD-3-Clause
"""The report of a compiled program, or of a file with several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import torch

from torch_atalla.loadable.host_call import Segment
from torch_atalla.loadable.report import LoadableReport, OpCoverage, SegmentReport

from ..lower.views import is_view
from ..program.ir import BufferKind, HostCall, Launch
from ..program.support import qualified_name
from ..targets.functional.pipeline import Compiled
from .flops import node_flops


def make_report(methods: Mapping[str, Compiled] | Compiled, *, path: str = "") -> LoadableReport:
    """Of the methods of a file, or of one program: everything but what only the file and the device know, file_bytes
    and estimate_cycles. Work is added up; weights and states that methods share count once."""
    names, several = (list(methods), list(methods.values())) if isinstance(methods, Mapping) else ([], [methods])
    instructions = [inst for compiled in several for inst in compiled.program.instructions]
    launches = [inst for inst in instructions if isinstance(inst, Launch)]
    calls = [inst for inst in instructions if isinstance(inst, HostCall)]
    buffers = [buffer for compiled in several for buffer in compiled.program.buffers]
    stored = {
        (buffer.tensor.data_ptr() or buffer.name, buffer.nbytes): int(buffer.nbytes)
        for buffer in buffers
        if buffer.kind is BufferKind.CONSTANT and buffer.tensor is not None
    }
    mutable = {buffer.name: int(buffer.nbytes) for buffer in buffers if buffer.kind is BufferKind.STATE}
    passes = [{result.name: len(result.nodes) for result in compiled.passes} for compiled in several]
    report = LoadableReport(
        model=several[0].captured.model,
        path=path,
        methods=names,
        unsupported=[op for compiled in several for op in compiled.partition.unsupported],
        passes=passes[0] if len(passes) == 1 else dict(sum(map(Counter, passes), Counter[str]())),
        kernels=dict(sorted(Counter(launch.kernel for launch in launches).items())),
        launches=len(launches),
        host_calls=len(calls),
        operators=sorted({name for call in calls for name in Segment(call.program).refused}),
        weights=len(stored),
        weight_bytes=sum(stored.values()),
        states=len(mutable),
        state_bytes=sum(mutable.values()),
        arena_bytes=max(compiled.plan.arena_bytes for compiled in several),
        arena_lower_bound=max(compiled.plan.lower_bound for compiled in several),
        arena_without_reuse=max(compiled.plan.unplanned_bytes for compiled in several),
        host_bytes=max(map(_host_bytes, calls), default=0),
        cores=max((cores for compiled in several for cores in compiled.cores), default=1),
    )
    rows: list[OpCoverage] = []
    for compiled in several:
        for number, segment in enumerate(compiled.partition.segments):
            rows += [_row(node, segment.native) for node in segment.nodes if computes(node)]
            name, count = segment_name(number, segment.native), compiled.program.segments.count(number)
            report.segments.append(SegmentReport(name, segment.native, len(segment.nodes), count))
    report.by_op = _added(rows)
    report.ops, report.native_ops, report.flops, report.native_flops = _sums(rows)
    return report


def _row(node: torch.fx.Node, native: bool) -> OpCoverage:
    flops = node_flops(node)
    return OpCoverage(qualified_name(node.target), 1, int(native), flops, flops if native else 0)


def _sums(rows: Iterable[OpCoverage]) -> tuple[int, ...]:
    """Nodes, native ones, and their operations."""
    counts = ((row.nodes, row.native, row.flops, row.native_flops) for row in rows)
    return tuple(map(sum, zip((0,) * 4, *counts)))


def _added(rows: Iterable[OpCoverage]) -> list[OpCoverage]:
    """One row an op."""
    by_op: dict[str, list[OpCoverage]] = {}
    for row in rows:
        by_op.setdefault(row.op, []).append(row)
    return sorted(
        (OpCoverage(op, *_sums(several)) for op, several in by_op.items()), key=lambda row: (-row.flops, row.op)
    )


def _host_bytes(call: HostCall) -> int:
    extents = [operand.extent() for operand in (*call.inputs, *call.outputs)]
    return sum(int(end) - int(begin) for begin, end in extents)


def computes(node: torch.fx.Node) -> bool:
    """Whether a node is neither a view nor a part of several results."""
    return isinstance(node.target, torch._ops.OpOverload) and not is_view(node.target)


def segment_name(number: int, native: bool) -> str:
    return f"{'native' if native else 'fallback'}_{number}"
