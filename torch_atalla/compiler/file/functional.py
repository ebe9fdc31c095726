# SPDX-License-Identifier: BSD-3-Clause
"""Compiles programs to launches, checks the file and writes it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from torch_atalla.driver import c_abi, runtime
from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.driver.extension import _C
from torch_atalla.driver.files import write_whole
from torch_atalla.loadable.description import render
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.signature import add_signature
from torch_atalla.loadable.host_call import run_host_call
from torch_atalla.loadable.leaves import dump_leaves, dump_spec, method_key
from torch_atalla.loadable.report import LaunchCycles, LoadableReport
from torch_atalla.version import __version__

from ..capture.capture import decompose, export_module, mutated_buffers
from ..program.ir import Launch
from ..targets.functional.dump import Dump
from ..targets.functional.pipeline import Compiled, compile_program
from .emit import GoldenRecord, emit
from .golden import make_golden
from .report import make_report, merge_reports

Source = torch.export.ExportedProgram | torch.nn.Module


def save_functional(
    program: Source | Mapping[str, Source],
    path: str | os.PathLike,
    *,
    args: tuple | None,
    kwargs: Mapping[str, Any] | None,
    fallback: str,
    verify: bool,
    optimize: str,
    golden: bool,
    seed: int,
    sign: bytes | None,
    fold: str | None,
    epilogue: bool,
    weights: str | None,
    residency: bool,
    dump: str | os.PathLike | None,
    metadata: Mapping[str, str] | None = None,
) -> LoadableReport:
    """Writes the file that the functional engine runs; save.py documents the options. metadata: more entries."""
    sources = dict(program) if isinstance(program, Mapping) else {"forward": program}
    if not sources or not all(isinstance(name, str) and name for name in sources):
        raise ExportError(f"expected methods by name, got {sorted(map(str, sources))}")
    exported = {name: export_module(item, args, kwargs) for name, item in sources.items()}
    decomposed = {name: decompose(item) for name, item in exported.items()}
    states = frozenset[str]().union(*map(mutated_buffers, decomposed.values()))
    methods = {
        name: compile_program(
            item,
            fallback=fallback,
            optimize=optimize,
            fold=fold,
            epilogue=epilogue,
            weights=weights,
            pack=len(exported) == 1,  # methods have other uses for a weight that they share
            dump=dump if dump is None or len(exported) == 1 else Path(dump) / name,
            decomposed=decomposed[name],
            states=states,
            residency=residency,
        )
        for name, item in exported.items()
    }
    report = merge_reports(
        {name: make_report(compiled, path=os.fspath(path)) for name, compiled in methods.items()}, methods
    )
    versions = {
        kernel: version for compiled in methods.values() for kernel, version in resolve_kernels(compiled).items()
    }

    def write(goldens: list[GoldenRecord]) -> bytes:
        return _emit(methods, report, versions, goldens, metadata or {})

    def make_goldens(measured: bool) -> list[GoldenRecord]:
        made = [
            make_golden(exported[name], compiled, k, seed=seed, weights=weights, measured=measured)
            for k, (name, compiled) in enumerate(methods.items())
        ]
        return [item for item in made if item is not None]

    goldens = make_goldens(measured=False) if golden else []
    data = write(goldens)
    if verify:
        try:
            report.method_cycles, report.launch_cycles = _verify(data, methods)
        except ExportError:
            # Results may be what rounding left of a difference; then no fixed tolerance is right.
            measured = make_goldens(measured=True) if goldens else goldens
            if measured == goldens:
                raise
            goldens, data = measured, write(measured)
            report.method_cycles, report.launch_cycles = _verify(data, methods)
        report.estimate_cycles = report.method_cycles[0]
        data = write(goldens)
        runtime.validate(data)
    if sign is not None:
        data = add_signature(data, sign, runtime.crc32c)
    report.file_bytes = len(data)
    if dump is not None:
        Dump(dump).listing(_listing(data))
    write_whole(Path(path), data)
    return report


def resolve_kernels(compiled: Compiled) -> dict[str, int]:
    """Versions of the kernels. Raises ExportError for those that the device library lacks, in name or dtype."""
    versions: dict[str, int] = {}
    problems = []
    for inst in compiled.program.instructions:
        if not isinstance(inst, Launch):
            continue
        info = runtime.kernel_info(inst.kernel)
        if info is None:
            problems.append(f"{inst.kernel} (node {inst.node}): no such kernel")
        elif not info[1] >> CODES[inst.compute_dtype] & 1:
            problems.append(f"{inst.kernel} (node {inst.node}): {dtype_name(inst.compute_dtype)} is not taken")
        else:
            versions[inst.kernel] = info[0]
    if problems:
        raise ExportError("the device library cannot run the program:\n" + "\n".join(f"  {text}" for text in problems))
    return versions


def _emit(
    methods: Mapping[str, Compiled],
    report: LoadableReport,
    versions: Mapping[str, int],
    goldens: Sequence[GoldenRecord],
    more: Mapping[str, str],
) -> bytes:
    metadata = {
        "producer": f"torch_atalla {__version__}",
        "torch": torch.__version__.partition("+")[0],
        "chip": hashlib.sha256(_C.chip_config(0).encode()).hexdigest(),
        "model": next(iter(methods.values())).captured.model,
        "coverage_ops": f"{report.coverage_ops:.6f}",
        "coverage_flops": f"{report.coverage_flops:.6f}",
        "report": replace(report, path="", launch_cycles=[], by_op=[]).to_json(indent=None),
        **more,
    }
    for number, (name, compiled) in enumerate(methods.items()):
        captured = compiled.captured
        metadata |= {
            method_key("in_spec", name, number): dump_spec(captured.in_spec),
            method_key("out_spec", name, number): dump_spec(captured.out_spec),
            method_key("in_leaves", name, number): dump_leaves(captured.inputs),
            method_key("out_leaves", name, number): dump_leaves(captured.outputs),
        }
        if drawn := compiled.program.random_positions:
            metadata[method_key("random_positions", name, number)] = str(drawn)
    cycles, crc32c = report.method_cycles, runtime.crc32c
    return emit(
        methods, kernel_versions=versions, crc32c=crc32c, metadata=metadata, estimate_cycles=cycles, goldens=goldens
    )


def _verify(data: bytes, methods: Mapping[str, Compiled]) -> tuple[list[int], list[LaunchCycles]]:
    """Validates, loads and replays, and gives the simulated cycles; zeros when device 0 has no room."""
    program = runtime.Program(data)
    try:
        program.load(0)
        program.set_host_call(lambda text, inputs, outputs: run_host_call(0, text, inputs, outputs))
        program.verify()
        counts = [len(compiled.program.instructions) for compiled in methods.values()]
        each = [program.estimate_each(number, count) for number, count in enumerate(counts)]
        return [sum(cycles) for cycles in each], _compared(each, methods)
    except runtime.RuntimeLibraryError as error:
        if error.status == c_abi.ATALLA_ERR_OUT_OF_MEMORY:
            return [0] * len(methods), []
        if error.status == c_abi.ATALLA_ERR_FORMAT:
            raise ExportError(f"the program does not give what PyTorch does: {error}") from None
        raise
    finally:
        program.close()


def _listing(data: bytes) -> str:
    with closing(runtime.Program(data)) as program:
        return render(program.describe())


def _compared(each: list[list[int]], methods: Mapping[str, Compiled]) -> list[LaunchCycles]:
    found = []
    for cycles, (name, compiled) in zip(each, methods.items()):
        schedule, instructions = compiled.schedule, compiled.program.instructions
        for i, inst in enumerate(instructions if schedule.cores else ()):
            if isinstance(inst, Launch):
                charged = (schedule.baseline[i], schedule.predicted[i], cycles[i])
                found.append(LaunchCycles(name, inst.kernel, inst.node, schedule.cores[i], *charged))
    return found
