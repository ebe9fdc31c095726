# SPDX-License-Identifier: BSD-3-Clause
"""The report of a save: coverage, segments, memory and cost, as text or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from torch_atalla.device.energy import text
from torch_atalla.device.html_table import html_table

from .errors import MALFORMED, LoadableError, UnsupportedOp


@dataclass(frozen=True)
class SegmentReport:
    """One segment of the graph: nodes that all run on the chip, or all fall back."""

    name: str
    native: bool
    nodes: int
    instructions: int


@dataclass(frozen=True)
class LaunchCycles:
    """Cycles of one launch, as the device charges them: those of the launch's code, if there is some."""

    method: str
    kernel: str
    node: str
    cores: int
    cycles: int


@dataclass(frozen=True)
class OpCoverage:
    """Coverage of one op: number of nodes, nodes that run on the chip, and their floating-point operations."""

    op: str
    nodes: int
    native: int
    flops: int
    native_flops: int


@dataclass
class LoadableReport:
    """Report of a save. `ops` counts nodes that compute; views and items of tuples are free and not counted."""

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
    operators: list[str] = field(default_factory=list)  # of host calls, which load_loadable must be told to allow
    weights: int = 0  # stored tensors; tied ones count once
    weight_bytes: int = 0
    arena_bytes: int = 0
    arena_lower_bound: int = 0
    arena_without_reuse: int = 0
    file_bytes: int = 0
    residents: int = 0  # temporaries that code keeps in scratchpads
    host_bytes: int = 0  # copies of the host call with the most data
    cores: int = 1  # most cores that one launch is divided over
    launch_cycles: list[LaunchCycles] = field(default_factory=list, compare=False)  # only after a save; not in files
    by_op: list[OpCoverage] = field(default_factory=list, compare=False)  # most FLOPs first; not in files
    estimate_cycles: int = 0  # of the first method; 0 if not estimated
    methods: list[str] = field(default_factory=list)
    method_cycles: list[int] = field(default_factory=list)
    method_joules: list[float] = field(default_factory=list)  # each launch as if it ran alone; 0 if not estimated
    states: int = 0  # mutable buffers
    state_bytes: int = 0
    code: dict = field(default_factory=dict)  # engine="isa": size of the code, and its error if the model was converted

    @property
    def coverage_ops(self) -> float:
        """Fraction of ops that run on the chip."""
        return self.native_ops / self.ops if self.ops else 1.0

    @property
    def coverage_flops(self) -> float:
        """Fraction of floating-point operations that run on the chip; 1 if there are none."""
        return self.native_flops / self.flops if self.flops else 1.0

    def _schedule(self) -> list[str]:
        cores = f"{self.cores} core{'s' if self.cores > 1 else ''}"
        return [f"schedule    {self.residents} temporaries stay in scratchpads; {cores}"]

    def estimates(self) -> list[str]:
        """Cycles and energy of one run, a line per method."""
        lines, cycles = [], self.method_cycles or [self.estimate_cycles]
        for number, count in enumerate(cycles):
            name = f"{self.methods[number]} " if len(cycles) > 1 and number < len(self.methods) else ""
            joules = self.method_joules[number] if number < len(self.method_joules) else 0.0
            energy = f", {text(joules)}" if joules else ""
            lines.append(f"{name}{count:,} cycles{energy}" if count else f"{name}not made")
        return lines

    def coverage_table(self) -> str:
        """Return a table of ops: nodes on the chip, all nodes, and the op's share of the model's FLOPs."""
        rows = [("op", "native", "nodes", "share of FLOPs")]
        rows += [(r.op, str(r.native), str(r.nodes), f"{r.flops / max(self.flops, 1):.1%}") for r in self.by_op]
        width = max(len(row[0]) for row in rows)
        return "\n".join(f"{op:<{width}} {native:>8} {nodes:>8} {share:>16}" for op, native, nodes, share in rows)

    def to_json(self, indent: int | None = 2) -> str:
        """Return the report as JSON, with both coverages."""
        data = asdict(self) | {"coverage_ops": self.coverage_ops, "coverage_flops": self.coverage_flops}
        return json.dumps(data, indent=indent)

    @staticmethod
    def of_file(description: dict[str, Any]) -> LoadableReport:
        """Return the report in a file, which the driver has described. Raises LoadableError if save_loadable did not
        write it."""
        stored = description["metadata"].get("report")
        try:
            report = LoadableReport.from_json(stored) if stored else LoadableReport()
        except MALFORMED as error:
            raise LoadableError(f"the file's report cannot be read: {type(error).__name__}: {error}") from None
        report.file_bytes = description["file_bytes"]
        report.method_cycles = [method["estimate_cycles"] for method in description["methods"]]
        report.estimate_cycles = report.method_cycles[0]
        return report

    @staticmethod
    def from_json(stored: str) -> LoadableReport:
        """Return the report that `to_json` wrote."""
        data = json.loads(stored)
        data.pop("coverage_ops", None)
        data.pop("coverage_flops", None)
        data["segments"] = [SegmentReport(**segment) for segment in data["segments"]]
        data["launch_cycles"] = [LaunchCycles(**item) for item in data.get("launch_cycles", [])]
        for name in ("predicted_cycles", "baseline_cycles", "scratchpad_bytes", "scratchpad_lower_bound"):
            data.pop(name, None)  # of older files
        data["by_op"] = [OpCoverage(**item) for item in data.get("by_op", [])]
        data["unsupported"] = [UnsupportedOp(**op) for op in data["unsupported"]]
        return LoadableReport(**data)

    def _repr_html_(self) -> str:
        table = html_table([(line[:12].strip(), line[12:]) for line in str(self).splitlines()])
        rows = [(r.op, r.native, r.nodes, f"{r.flops / max(self.flops, 1):.1%}") for r in self.by_op]
        return table + (html_table(rows, ("op", "native", "nodes", "share of FLOPs")) if rows else "")

    def __str__(self) -> str:
        native = sum(segment.native for segment in self.segments)
        lines = [
            f"model       {self.model or '(unnamed)'}" + (f" -> {self.path}" if self.path else ""),
            f"coverage    {self.coverage_ops:.1%} of ops ({self.native_ops} of {self.ops}), "
            f"{self.coverage_flops:.1%} of FLOPs ({self.native_flops:,} of {self.flops:,})",
            *([f"methods     {', '.join(self.methods)}"] if len(self.methods) > 1 else []),
            f"segments    {native} native, {len(self.segments) - native} fallback",
            f"program     {self.launches} launches, {self.host_calls} host calls",
            *([f"allow       load_loadable(..., operators={self.operators})"] if self.operators else []),
            f"weights     {self.weights} tensors, {self.weight_bytes:,} bytes",
            f"arena       {self.arena_bytes:,} bytes (at least {self.arena_lower_bound:,} are needed, "
            f"{self.arena_without_reuse:,} without reuse)",
            *(self._schedule() if self.residents or self.cores > 1 else []),
            *([f"states      {self.states} tensors, {self.state_bytes:,} bytes"] if self.states else []),
            f"file        {self.file_bytes:,} bytes",
            *(f"estimate    {line}" for line in self.estimates()),
        ]
        if self.code:
            plain = {key: value for key, value in self.code.items() if not isinstance(value, dict)}
            facts = ", ".join(f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v:,}" for k, v in plain.items())
            lines.append(f"code        {facts}")
            joules = self.code.get("joules_by_size", {})
            for what, cycles in self.code.get("cycles_by_size", {}).items():
                lines.append(f"            {what}: {cycles:,} cycles" + (f", {text(joules[what])}" if joules else ""))
            for what, cycles in sorted(self.code.get("scalar_cycles", {}).items(), key=lambda item: -item[1]):
                lines.append(f"            on the scalar core: {what} {cycles:,} cycles")
        lines += [f"not native  {op}" for op in self.unsupported]
        return "\n".join(lines)
