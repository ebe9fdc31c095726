# SPDX-License-Identifier: BSD-3-Clause
"""The one document that a report page shows, and its collection from a file and a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from torch_atalla import chip as chip_module
from torch_atalla import energy
from torch_atalla.loadable.code_machine import random_inputs
from torch_atalla.loadable.description import describe
from torch_atalla.loadable.file.code_section import find
from torch_atalla.loadable.load import load_loadable
from torch_atalla.loadable.program import LoadedProgram
from torch_atalla.telemetry import Recording

from .code import Code, read_code
from .layout import Layout, layered
from .losses import Loss, losses
from .memory import MemoryPlan, memory_plan
from .modules import Module, module_tree
from .program import Program, read_program
from .roofline import Dot, Limits, dots, limits
from .timeline import Timeline, make_timeline

VERSION = 1  # of the document's schema


@dataclass(frozen=True)
class Document:
    """All that a page shows, as plain data. The parts of a program are None for a recording of other work.

    facts: labels and values of the overview. coverage: fractions of ops and of FLOPs that run on the chip. layouts: of
    the graph before fusion, and after it; empty for a file that was written without its graph.
    """

    version: int
    title: str
    facts: dict[str, str]
    coverage: dict[str, float] | None
    timeline: Timeline
    limits: Limits
    dots: list[Dot]
    losses: list[Loss]
    program: Program | None = None
    modules: list[Module] | None = None
    layouts: tuple[Layout, Layout] | None = None
    memory: MemoryPlan | None = None
    code: Code | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the document as dicts and lists of JSON."""
        return asdict(self)


def of_recording(recording: Recording, title: str = "Recorded run") -> Document:
    """Return the document of recorded work. Raises ValueError for a recording without work or of several devices."""
    devices = [device for device in recording.devices if device.work]
    if len(devices) != 1:
        names = ", ".join(f"atalla:{device.ordinal}" for device in devices) or "none"
        raise ValueError(
            f"report: expected a recording with work of one device, found work of: {names}. Record one device's work "
            "inside `with telemetry.Recording()`, or write a trace of several devices with Recording.save()"
        )
    config = chip_module.config(devices[0].ordinal)
    timeline = make_timeline(devices[0], recording.origin)
    facts = {"Device": f"{timeline.device}, {timeline.clock_hz / 1e6:g} MHz", "Cycles": f"{timeline.cycles:,}"}
    facts |= _energy(timeline)
    return Document(VERSION, title, facts, None, timeline, *_measured(timeline, config))


def of_program(
    program: LoadedProgram | str | os.PathLike[str],
    inputs: Sequence[Any] | None = None,
    method: str | None = None,
    device: str | int | torch.device = "atalla",
    seed: int = 0,
    code: bool = True,
) -> Document:
    """Return the document of a loadable: run one method once on its functional engine.

    code: also run the Atalla code of a file that has it.
    """
    if isinstance(program, LoadedProgram):
        path, operators = program.path, program.operators
        runnable = (
            program if program.engine == "functional" else load_loadable(path, program.device, operators=operators)
        )
    else:
        path = os.fspath(program)
        runnable = load_loadable(path, device)
    data = describe(path)
    name = method or data["methods"][0]["name"]
    callee = runnable[name]
    number = [record["name"] for record in data["methods"]].index(name)
    found = read_program(data, number)
    config = chip_module.config(runnable.device)
    given = random_inputs([(x.dtype, x.shape) for x in callee.inputs], seed) if inputs is None else inputs
    arguments = tree_map_only(torch.Tensor, lambda x: x.to(runnable.device), list(given))
    with Recording() as recording:
        callee(*arguments)
    work = next(item for item in recording.devices if item.ordinal == runnable.device.index)
    timeline = make_timeline(work, recording.origin, found.instructions)
    report = runnable.report
    sections = find(Path(path).read_bytes()) if code else None
    stored = next((item for item in sections.methods if item.method == number), None) if sections else None
    graph = data["metadata"].get("model") or Path(path).name
    drawn = any(node.inputs for node in found.nodes)
    return Document(
        VERSION,
        f"{graph}: {name}" if len(data["methods"]) > 1 else graph,
        _facts(data, number, timeline),
        {"ops": report.coverage_ops, "flops": report.coverage_flops},
        timeline,
        *_measured(timeline, config),
        program=found,
        modules=module_tree(found, timeline.spans),
        layouts=_layouts(found) if drawn else None,
        memory=memory_plan(data, number, report.arena_without_reuse),
        code=read_code(path, name, stored, {node.name: i for i, node in enumerate(found.nodes)}) if stored else None,
    )


def _energy(timeline: Timeline) -> dict[str, str]:
    """The energy of the run, and its power."""
    if not timeline.joules:
        return {}
    seconds = max(timeline.cycles, 1) / timeline.clock_hz
    return {
        "Energy": energy.text(timeline.joules),
        "Power": f"{timeline.joules / seconds:.3g} W; at most {timeline.peak_watts:.3g} W in a launch",
    }


def _measured(timeline: Timeline, config: dict[str, Any]) -> tuple[Limits, list[Dot], list[Loss]]:
    limit = limits(config)
    return limit, dots(timeline.spans, limit), losses(timeline.spans, limit, timeline.cycles)


def _layouts(program: Program) -> tuple[Layout, Layout]:
    return (
        layered([node.inputs for node in program.nodes]),
        layered([inst.inputs for inst in program.instructions]),
    )


def _facts(data: dict[str, Any], number: int, timeline: Timeline) -> dict[str, str]:
    metadata, method = data["metadata"], data["methods"][number]
    first, count = method["instructions"]
    calls = sum(inst["kind"] == "host_call" for inst in data["instructions"][first : first + count])
    return {
        "Device": f"{timeline.device}, {timeline.clock_hz / 1e6:g} MHz",
        "Cycles": f"{timeline.cycles:,}",
        "Time": f"{timeline.cycles / timeline.clock_hz * 1e6:,.1f} µs",
        **_energy(timeline),
        "Launches": f"{count - calls:,}",
        "Host calls": f"{calls:,}",
        "File": f"{data['file_bytes']:,} bytes",
        "Arena": f"{method['arena_bytes']:,} bytes",
        "Written by": f"{metadata.get('producer', '?')}, torch {metadata.get('torch', '?')}",
    }
