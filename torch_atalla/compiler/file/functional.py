# SPDX-License-Identifier: BSD-3-Clause
"""Compiles programs to launches, checks the file and writes it."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from torch_atalla.driver import c_abi, runtime
from torch_atalla.driver.chip_identity import chip_identity
from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.description import render
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.code_section import CodeSection, attach
from torch_atalla.loadable.file.signature import add_signature
from torch_atalla.loadable.host_call import HostCalls
from torch_atalla.loadable.leaves import dump_leaves, dump_spec, method_key
from torch_atalla.loadable.provenance import remember
from torch_atalla.loadable.report import LaunchCycles, LoadableReport
from torch_atalla.version import __version__

from ..capture.capture import decompose, export_module, mutated_buffers
from ..capture.shared_tensors import SharedTensors
from ..program.ir import Launch
from ..targets.functional.dump import Dump
from ..targets.functional.pipeline import Compiled, compile_program
from .contents import GoldenRecord
from .emit import emit
from .golden import make_golden
from .report import make_report

Source = torch.export.ExportedProgram | torch.nn.Module


@dataclass
class Options:
    """Those of save_loadable that say what the file holds; save.py documents them."""

    verify: bool
    golden: bool
    seed: int
    weights: str | None
    sign: bytes | None
    dump: str | os.PathLike | None


@dataclass
class FileBuilder:
    """The methods of a file, compiled, on their way to its bytes."""

    path: str
    exported: dict[str, torch.export.ExportedProgram]
    methods: dict[str, Compiled]
    options: Options
    report: LoadableReport
    metadata: dict[str, str] = field(default_factory=dict)
    code: CodeSection | None = None
    golden_sizes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)  # by method: values of its symbols
    check_code: Callable[[bytes], None] = lambda data: None  # raises ExportError where it gives other values

    def goldens(self, measured: bool) -> list[GoldenRecord]:
        options = self.options
        same: dict[str, Any] = {"seed": options.seed, "weights": options.weights, "measured": measured}
        same["stable"] = self.code is not None
        made = [
            make_golden(self.exported[name], compiled, k, sizes=sizes, **same)
            for k, (name, compiled) in enumerate(self.methods.items())
            for sizes in self.golden_sizes.get(name, [None])
        ]
        return [item for item in made if item is not None]

    def encoded(self, goldens: Sequence[GoldenRecord]) -> bytes:
        versions: dict[str, int] = {}
        for compiled in self.methods.values():
            versions |= resolve_kernels(compiled)
        data = _emit(self.methods, self.report, versions, goldens, self.metadata)
        return data if self.code is None else attach(data, self.code, runtime.crc32c)

    def build(self) -> bytes:
        """With golden outputs, if the options ask for them, that every engine of the file gives."""
        report, options = self.report, self.options
        goldens = self.goldens(measured=False) if options.golden else []
        if self.code is not None:
            self.check_code(self.encoded(goldens))
        if options.verify:
            goldens = self._verified(goldens)
            report.estimate_cycles = report.method_cycles[0]
        data = self.encoded(goldens)  # with what the checks have added to the report
        if options.verify:
            runtime.validate(data)
        if options.sign is not None:
            data = add_signature(data, options.sign, runtime.crc32c)
        report.file_bytes = len(data)
        if report.operators:
            remember(data)
        if options.dump is not None:
            Dump(options.dump).listing(_listing(data))
        return data

    def _verified(self, goldens: list[GoldenRecord]) -> list[GoldenRecord]:
        """Those that every engine of the file gives; the report gets cycles and joules. Raises ExportError."""
        report, with_code, failed = self.report, self.code is not None, ExportError()
        for measured in (False, True):  # results may be what rounding left of a difference: no fixed tolerance is right
            if measured and goldens:
                goldens = self.goldens(measured=True)
            try:
                _verify(self.encoded(goldens), self.methods, with_code, report)
                return goldens
            except ExportError as error:
                failed = error
        if not with_code or not goldens:
            raise failed
        # The code was checked step by step, and where rounding decides about whole results, it may decide otherwise.
        _verify(self.encoded(goldens), self.methods, False, report)
        warnings.warn(f"the file gets no golden outputs: rounding decides about results ({failed})", stacklevel=4)
        return []


def methods_of(
    program: Source | Mapping[str, Source], args: tuple | None, kwargs: Mapping[str, Any] | None
) -> dict[str, torch.export.ExportedProgram]:
    """The methods of a file by name; one program is the method "forward"."""
    sources = dict(program) if isinstance(program, Mapping) else {"forward": program}
    if not sources or not all(isinstance(name, str) and name for name in sources):
        raise ExportError(f"expected methods by name, got {sorted(map(str, sources))}")
    return {name: export_module(item, args, kwargs) for name, item in sources.items()}


def compile_methods(
    exported: Mapping[str, torch.export.ExportedProgram],
    shared: SharedTensors,
    dump: str | os.PathLike | None,
    **options: Any,
) -> dict[str, Compiled]:
    """shared: of the programs as they were given. options: those of the pipeline."""
    decomposed = {name: decompose(item, states=shared.states[name]) for name, item in exported.items()}
    files = {name: shared.names[name] for name in exported}
    mutated = {files[name].get(own, own) for name, item in decomposed.items() for own in mutated_buffers(item)}
    return {
        name: compile_program(
            item,
            pack=len(exported) == 1,  # methods have other uses for a weight that they share
            dump=dump if dump is None or len(exported) == 1 else Path(dump) / name,
            decomposed=decomposed[name],
            states={own for own in shared.states[name] if files[name].get(own, own) in mutated},
            names=files[name],
            **options,
        )
        for name, item in exported.items()
    }


def file_builder(
    path: str | os.PathLike,
    exported: dict[str, torch.export.ExportedProgram],
    methods: dict[str, Compiled],
    options: Options,
) -> FileBuilder:
    report = make_report(methods, path=os.fspath(path))
    return FileBuilder(os.fspath(path), exported, methods, options, report)


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
        "chip": hashlib.sha256(chip_identity(0).encode()).hexdigest(),
        "model": next(iter(methods.values())).captured.model,
        "coverage_ops": f"{report.coverage_ops:.6f}",
        "coverage_flops": f"{report.coverage_flops:.6f}",
        "report": replace(report, path="", launch_cycles=[], by_op=[]).to_json(indent=None),
        **more,
    }
    for number, (name, compiled) in enumerate(methods.items()):
        captured = compiled.captured
        results = captured.outputs[: len(captured.outputs) - captured.counts]
        metadata |= {
            method_key("in_spec", name, number): dump_spec(captured.in_spec),
            method_key("out_spec", name, number): dump_spec(captured.out_spec),
            method_key("in_leaves", name, number): dump_leaves(captured.inputs),
            method_key("out_leaves", name, number): dump_leaves(results),
        }
        if captured.result_sizes:
            metadata[method_key("result_sizes", name, number)] = json.dumps(captured.result_sizes)
        if drawn := compiled.program.random_positions:
            metadata[method_key("random_positions", name, number)] = str(drawn)
    cycles, crc32c = report.method_cycles, runtime.crc32c
    return emit(
        methods, kernel_versions=versions, crc32c=crc32c, metadata=metadata, estimate_cycles=cycles, goldens=goldens
    )


def _verify(data: bytes, methods: Mapping[str, Compiled], code: bool, report: LoadableReport) -> None:
    """Validates, loads and replays the goldens, also with the file's Atalla code. The report gets the simulated cycles
    and joules; zeros when device 0 has no room."""
    try:
        if code:
            with closing(runtime.Program(data)) as program:
                program.load(0, "isa")
                program.verify()
        with closing(runtime.Program(data)) as program:
            HostCalls.attach(program, 0, ("*",))  # the operators of the caller's own model
            program.load(0)
            program.verify()
            counts = [len(compiled.program.instructions) for compiled in methods.values()]
            each = [program.estimate_each(number, count) for number, count in enumerate(counts)]
            report.method_cycles = [sum(cycles) for cycles in each]
            report.method_joules = [program.estimate_joules(number) for number in range(len(methods))]
            report.launch_cycles = _launches(each, methods)
    except runtime.RuntimeLibraryError as error:
        if error.status == c_abi.ATALLA_ERR_OUT_OF_MEMORY:
            report.method_cycles, report.method_joules = [0] * len(methods), [0.0] * len(methods)
            report.launch_cycles = []
            return
        if error.status == c_abi.ATALLA_ERR_FORMAT:
            raise ExportError(f"the results of the program differ from PyTorch's: {error}") from None
        raise ExportError(f"the device cannot run the program: {error}") from error


def _listing(data: bytes) -> str:
    with closing(runtime.Program(data)) as program:
        return render(program.describe())


def _launches(each: list[list[int]], methods: Mapping[str, Compiled]) -> list[LaunchCycles]:
    found = []
    for cycles, (name, compiled) in zip(each, methods.items()):
        for inst, cores, count in zip(compiled.program.instructions, compiled.cores, cycles):
            if isinstance(inst, Launch):
                found.append(LaunchCycles(name, inst.kernel, inst.node, cores, count))
    return found
