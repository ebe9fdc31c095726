# SPDX-License-Identifier: BSD-3-Clause
"""What became of a model: coverage, segments, memory, cost. Prints well and goes to JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import torch

from .errors import UnsupportedOp
from .flops import node_flops
from .ir import BufferKind, HostCall, Launch
from .lower.views import is_view
from .pipeline import Compiled
from .support import qualified_name


@dataclass(frozen=True)
class SegmentReport:
    name: str
    native: bool
    nodes: int
    instructions: int


@dataclass(frozen=True)
class LaunchCycles:
    """What the cost model predicted for a launch, and what the device charges for it."""

    method: str
    kernel: str
    node: str
    cores: int
    baseline: int
    predicted: int
    simulated: int


@dataclass(frozen=True)
class OpCoverage:
    """The nodes of one op: how many there are, how many run on the chip, and their floating-point operations."""

    op: str
    nodes: int
    native: int
    flops: int
    native_flops: int


@dataclass
class LoadableReport:
    """`ops` counts nodes that compute; views and parts of several results cost nothing and are not counted."""

    model: str = ""
    path: str = ""
    engine: str = "functional"
    ops: int = 0
    native_ops: int = 0
    flops: int = 0
    native_flops: int = 0
    segments: list[SegmentReport] = field(default_factory=list)
    unsupported: list[UnsupportedOp] = field(default_factory=list)
    passes: dict[str, int] = field(default_factory=dict)  # pass -> nodes removed
    kernels: dict[str, int] = field(default_factory=dict)  # kernel -> launches
    launches: int = 0
    host_calls: int = 0
    weights: int = 0  # stored tensors, tied ones once
    weight_bytes: int = 0
    arena_bytes: int = 0
    arena_lower_bound: int = 0
    arena_without_reuse: int = 0
    file_bytes: int = 0
    predicted_cycles: int = 0  # by the cost model, of all methods
    baseline_cycles: int = 0  # the same from DRAM alone, on one core
    residents: int = 0  # temporaries in the scratchpads
    scratchpad_bytes: int = 0  # of the pages that hold them
    scratchpad_lower_bound: int = 0  # the most that they have at one time
    host_bytes: int = 0  # of the copies that the widest host call works on
    cores: int = 1  # over which the widest launch is divided
    launch_cycles: list[LaunchCycles] = field(default_factory=list, compare=False)  # of a save; files have it not
    by_op: list[OpCoverage] = field(default_factory=list, compare=False)  # most FLOPs first; files have NODES
    estimate_cycles: int = 0  # of the first method; 0: not made
    methods: list[str] = field(default_factory=list)
    method_cycles: list[int] = field(default_factory=list)
    states: int = 0  # mutable buffers
    state_bytes: int = 0
    code: dict = field(default_factory=dict)  # engine="isa": size of the code, and its error if the model was converted

    @property
    def coverage_ops(self) -> float:
        """Share of ops that run on the chip."""
        return self.native_ops / self.ops if self.ops else 1.0

    @property
    def coverage_flops(self) -> float:
        """Share of floating-point operations that run on the chip; 1 when there are none."""
        return self.native_flops / self.flops if self.flops else 1.0

    def _schedule(self) -> list[str]:
        saved = 1 - self.predicted_cycles / self.baseline_cycles
        wrong = sum(item.predicted != item.simulated for item in self.launch_cycles)
        checked = ", as simulated" if self.launch_cycles else ""
        if wrong:  # a defect, or another program held the scratchpads
            checked = f", {wrong} of {len(self.launch_cycles)} launches simulated otherwise"
        return [
            f"schedule    {self.predicted_cycles:,} cycles predicted ({saved:.1%} less than {self.baseline_cycles:,})"
            f"{checked}; {self.residents} temporaries in {self.scratchpad_bytes:,} bytes of scratchpads "
            f"(at least {self.scratchpad_lower_bound:,} are needed); "
            f"{self.cores} core{'s' if self.cores > 1 else ''}"
        ]

    def coverage_table(self) -> str:
        """By op: nodes that run on the chip, of all; their share of the FLOPs."""
        rows = [("op", "native", "nodes", "share of FLOPs")]
        rows += [(r.op, str(r.native), str(r.nodes), f"{r.flops / max(self.flops, 1):.1%}") for r in self.by_op]
        width = max(len(row[0]) for row in rows)
        return "\n".join(f"{op:<{width}} {native:>8} {nodes:>8} {share:>16}" for op, native, nodes, share in rows)

    def to_json(self, indent: int | None = 2) -> str:
        data = asdict(self) | {"coverage_ops": self.coverage_ops, "coverage_flops": self.coverage_flops}
        return json.dumps(data, indent=indent)

    @staticmethod
    def from_json(text: str) -> LoadableReport:
        data = json.loads(text)
        data.pop("coverage_ops", None)
        data.pop("coverage_flops", None)
        data["segments"] = [SegmentReport(**segment) for segment in data["segments"]]
        data["launch_cycles"] = [LaunchCycles(**item) for item in data.get("launch_cycles", [])]
        data["by_op"] = [OpCoverage(**item) for item in data.get("by_op", [])]
        data["unsupported"] = [UnsupportedOp(**op) for op in data["unsupported"]]
        return LoadableReport(**data)

    def __str__(self) -> str:
        native = sum(segment.native for segment in self.segments)
        lines = [
            f"model       {self.model or '(unnamed)'}" + (f" -> {self.path}" if self.path else ""),
            f"coverage    {self.coverage_ops:.1%} of ops ({self.native_ops} of {self.ops}), "
            f"{self.coverage_flops:.1%} of FLOPs ({self.native_flops:,} of {self.flops:,})",
            *([f"methods     {', '.join(self.methods)}"] if len(self.methods) > 1 else []),
            f"segments    {native} native, {len(self.segments) - native} fallback",
            f"program     {self.launches} launches, {self.host_calls} host calls",
            f"weights     {self.weights} tensors, {self.weight_bytes:,} bytes",
            f"arena       {self.arena_bytes:,} bytes (at least {self.arena_lower_bound:,} are needed, "
            f"{self.arena_without_reuse:,} without reuse)",
            *(self._schedule() if self.baseline_cycles else []),
            *([f"states      {self.states} tensors, {self.state_bytes:,} bytes"] if self.states else []),
            f"file        {self.file_bytes:,} bytes",
            f"estimate    {self.estimate_cycles:,} cycles" if self.estimate_cycles else "estimate    not made",
        ]
        if self.code:
            facts = ", ".join(f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v:,}" for k, v in self.code.items())
            lines.append(f"code        {facts}")
        lines += [f"not native  {op}" for op in self.unsupported]
        return "\n".join(lines)


def make_report(compiled: Compiled, *, path: str = "", engine: str = "functional") -> LoadableReport:
    """Everything but what only the file and the device know: file_bytes and estimate_cycles."""
    program, plan = compiled.program, compiled.plan
    launches = [inst for inst in program.instructions if isinstance(inst, Launch)]
    constants = [buffer for buffer in program.buffers if buffer.kind is BufferKind.CONSTANT]
    report = LoadableReport(
        model=compiled.captured.model,
        path=path,
        engine=engine,
        unsupported=list(compiled.partition.unsupported),
        passes={result.name: len(result.nodes) for result in compiled.passes},
        kernels=dict(sorted(Counter(launch.kernel for launch in launches).items())),
        launches=len(launches),
        host_calls=sum(isinstance(inst, HostCall) for inst in program.instructions),
        weights=len(constants),
        weight_bytes=sum(buffer.nbytes for buffer in constants),
        arena_bytes=plan.arena_bytes,
        arena_lower_bound=plan.lower_bound,
        arena_without_reuse=plan.unplanned_bytes,
        predicted_cycles=compiled.schedule.predicted_cycles,
        baseline_cycles=compiled.schedule.baseline_cycles,
        residents=len(compiled.schedule.residents),
        scratchpad_bytes=compiled.schedule.page_bytes(),
        scratchpad_lower_bound=compiled.schedule.peak_bytes(),
        host_bytes=max((_host_bytes(inst) for inst in program.instructions if isinstance(inst, HostCall)), default=0),
        cores=max(compiled.schedule.cores, default=1),
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
        report.segments.append(
            SegmentReport(
                name=segment_name(number, segment.native),
                native=segment.native,
                nodes=len(segment.nodes),
                instructions=program.segments.count(number),
            )
        )
    report.by_op = _added(rows)
    return report


def merge_reports(reports: Mapping[str, LoadableReport], methods: Mapping[str, Compiled]) -> LoadableReport:
    """The report of a file with these methods: work added up, weights and states that they share counted once."""
    (first, *_), names = reports.values(), list(reports)
    merged = replace(first, methods=names)
    for report in list(reports.values())[1:]:
        added = ("ops", "native_ops", "flops", "native_flops", "launches", "host_calls")
        for name in (*added, "predicted_cycles", "baseline_cycles", "residents"):
            setattr(merged, name, getattr(merged, name) + getattr(report, name))
        merged.segments = merged.segments + report.segments
        merged.by_op = _added(merged.by_op, report.by_op)
        merged.unsupported = merged.unsupported + report.unsupported
        merged.passes = dict(Counter(merged.passes) + Counter(report.passes))
        merged.kernels = dict(sorted((Counter(merged.kernels) + Counter(report.kernels)).items()))
        for name in ("arena_bytes", "arena_lower_bound", "arena_without_reuse"):
            setattr(merged, name, max(getattr(merged, name), getattr(report, name)))
        for name in ("scratchpad_bytes", "scratchpad_lower_bound", "host_bytes", "cores"):
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
