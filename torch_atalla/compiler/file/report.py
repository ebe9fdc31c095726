# SPDX-License-Identifier: BSD-3-Clause
"""The report of a compiled program, and of a file with several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch

from torch_atalla.loadable.host_call import Segment
from torch_atalla.loadable.report import LoadableReport, OpCoverage, SegmentReport

from ..lower.views import is_view
from ..program.ir import BufferKind, HostCall, Launch
from ..program.support import qualified_name
from ..targets.functional.pipeline import Compiled
from .flops import node_flops


def _not_pure(instructions: Iterable[Launch | HostCall]) -> list[str]:
    """Operators of host calls that a load refuses unless it is told to allow them."""
    calls = [Segment(inst.program) for inst in instructions if isinstance(inst, HostCall)]
    return sorted({name for call in calls for name in call.refused})


def make_report(compiled: Compiled, *, path: str = "") -> LoadableReport:
    """Everything but what only the file and the device know: file_bytes and estimate_cycles."""
    program, plan = compiled.program, compiled.plan
    launches = [inst for inst in program.instructions if isinstance(inst, Launch)]
    constants = [buffer for buffer in program.buffers if buffer.kind is BufferKind.CONSTANT]
    report = LoadableReport(
        model=compiled.captured.model,
        path=path,
        unsupported=list(compiled.partition.unsupported),
        passes={result.name: len(result.nodes) for result in compiled.passes},
        kernels=dict(sorted(Counter(launch.kernel for launch in launches).items())),
        launches=len(launches),
        host_calls=sum(isinstance(inst, HostCall) for inst in program.instructions),
        operators=_not_pure(program.instructions),
        weights=len(constants),
        weight_bytes=sum(buffer.nbytes for buffer in constants),
        arena_bytes=plan.arena_bytes,
        arena_lower_bound=plan.lower_bound,
        arena_without_reuse=plan.unplanned_bytes,
        host_bytes=max((_host_bytes(inst) for inst in program.instructions if isinstance(inst, HostCall)), default=0),
        cores=max(compiled.cores, default=1),
    )
    rows: list[OpCoverage] = []
    for number, segment in enumerate(compiled.partition.segments):
        computing = [node for node in segment.nodes if computes(node)]
        flops = sum(node_flops(node) for node in computing)
        report.ops += len(computing)
        report.flops += flops
        rows += [_row(node, segment.native) for node in computing]
        if segment.native:
            report.native_ops += len(computing)
            report.native_flops += flops
        name, count = segment_name(number, segment.native), program.segments.count(number)
        report.segments.append(SegmentReport(name, segment.native, len(segment.nodes), count))
    report.by_op = _added(rows)
    return report


def merge_reports(reports: Mapping[str, LoadableReport], methods: Mapping[str, Compiled]) -> LoadableReport:
    """The report of a file with these methods: work added up, weights and states that they share counted once."""
    (first, *_), names = reports.values(), list(reports)
    merged = replace(first, methods=names)
    for report in list(reports.values())[1:]:
        added = ("ops", "native_ops", "flops", "native_flops", "launches", "host_calls", "segments", "unsupported")
        for name in added:
            setattr(merged, name, getattr(merged, name) + getattr(report, name))
        merged.operators = sorted({*merged.operators, *report.operators})
        merged.by_op = _added(merged.by_op, report.by_op)
        merged.passes = dict(Counter(merged.passes) + Counter(report.passes))
        merged.kernels = dict(sorted((Counter(merged.kernels) + Counter(report.kernels)).items()))
        of_arena = ("arena_bytes", "arena_lower_bound", "arena_without_reuse")
        for name in (*of_arena, "host_bytes", "cores"):
            setattr(merged, name, max(getattr(merged, name), getattr(report, name)))
    buffers = [buffer for compiled in methods.values() for buffer in compiled.program.buffers]
    stored = {
        (buffer.tensor.data_ptr() or buffer.name, buffer.nbytes): int(buffer.nbytes)
        for buffer in buffers
        if buffer.kind is BufferKind.CONSTANT and buffer.tensor is not None
    }
    mutable = {buffer.name: int(buffer.nbytes) for buffer in buffers if buffer.kind is BufferKind.STATE}
    if len(methods) > 1:
        merged.weights, merged.weight_bytes = len(stored), sum(stored.values())
    merged.states, merged.state_bytes = len(mutable), sum(mutable.values())
    return merged


def _row(node: torch.fx.Node, native: bool) -> OpCoverage:
    flops = node_flops(node)
    return OpCoverage(qualified_name(node.target), 1, int(native), flops, flops if native else 0)


def _added(*several: list[OpCoverage]) -> list[OpCoverage]:
    """One row an op."""
    sums: dict[str, tuple[int, ...]] = {}
    for row in (row for rows in several for row in rows):
        counts = (row.nodes, row.native, row.flops, row.native_flops)
        sums[row.op] = tuple(map(sum, zip(sums.get(row.op, (0,) * 4), counts)))
    return sorted((OpCoverage(op, *counts) for op, counts in sums.items()), key=lambda row: (-row.flops, row.op))


def _host_bytes(call: HostCall) -> int:
    extents = [operand.extent() for operand in (*call.inputs, *call.outputs)]
    return sum(int(end) - int(begin) for begin, end in extents)


def computes(node: torch.fx.Node) -> bool:
    """Whether a node is neither a view nor a part of several results."""
    return isinstance(node.target, torch._ops.OpOverload) and not is_view(node.target)


def segment_name(number: int, native: bool) -> str:
    return f"{'native' if native else 'fallback'}_{number}"
