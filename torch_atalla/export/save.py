# SPDX-License-Identifier: BSD-3-Clause
"""Compile, check and write a loadable."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import _runtime
from .capture import decompose, export_module, mutated_buffers
from .dtypes import CODES
from .dtypes import name as dtype_name
from .dump import Dump
from .emit import GoldenRecord, emit
from .errors import ExportError
from .golden import make_golden
from .ir import Launch
from .leaves import dump_leaves, dump_spec, method_key
from .pipeline import Compiled, compile_program
from .report import LaunchCycles, LoadableReport, make_report, merge_reports
from .signature import add_signature

_OUT_OF_MEMORY = 30  # ATALLA_ERR_OUT_OF_MEMORY
_FORMAT = 24  # ATALLA_ERR_FORMAT


Source = torch.export.ExportedProgram | torch.nn.Module


def save_loadable(
    program: Source | Mapping[str, Source],
    path: str | os.PathLike,
    *,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    fallback: str = "cpu",
    engine: str = "functional",
    convert: str | None = None,
    verify: bool = True,
    optimize: str = "exact",
    golden: bool = True,
    seed: int = 0,
    sign: bytes | None = None,
    fold: str | None = None,
    epilogue: bool = False,
    weights: str | None = None,
    residency: bool = True,
    dump: str | os.PathLike | None = None,
) -> LoadableReport:
    """Compiles and writes a loadable; gives the report.

    program: an exported program, or several as {method name: exported program}, which share the parameters and mutable
    buffers that they have in common. fallback: "cpu" runs ops without a kernel through torch on the host when the
    program runs; "error" refuses them, all listed in one UnsupportedOpsError. args, kwargs: example inputs, for a
    module that is not exported yet. verify: check the bytes with the driver's validator, place the program on a device
    and replay its golden outputs, before anything is written. golden: store what PyTorch gives on the CPU for inputs
    made from `seed` in the range of the example inputs. sign: an Ed25519 private key (32 bytes) to sign the file with.
    optimize="exact" (default) joins launches and packs weights so that results are the bits of eager mode; "fast" also
    does what changes their rounding (batch norm folded into convolutions, constants folded by the CPU, 16-bit results
    not rounded between joined ops); "none" launches what eager mode launches. fold="all" and epilogue=True ask for
    single passes of "fast". weights="bfloat16" or "int8" stores the weights of products so, with float32 arithmetic.
    engine="isa" adds the whole program as Atalla code (docs/concepts/isa-codegen.md), which needs a
    bfloat16 model; convert="bfloat16" makes one of a float32 model, and the report states the error.
    residency: temporaries may stand in the scratchpads of the chip, where launches reach them without DRAM.
    dump: a directory for the graph or the program before and after every pass, the plan, and the file's listing.

    The file appears only when it is complete.
    """
    if engine == "isa":
        from ..isa.compiler.save import save_with_code

        options = {"fallback": fallback, "verify": verify, "optimize": optimize, "golden": golden, "seed": seed}
        options |= {"sign": sign, "fold": fold, "epilogue": epilogue, "weights": weights, "dump": dump}
        options |= {"residency": residency}
        return save_with_code(program, path, args=args, kwargs=kwargs, convert=convert, **options)
    if engine != "functional":
        raise ExportError(f'engine: expected "functional" or "isa", got {engine!r}')
    if convert is not None:
        raise ExportError('convert: expected None; only engine="isa" converts models')
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
        {name: make_report(compiled, path=os.fspath(path), engine=engine) for name, compiled in methods.items()},
        methods,
    )
    versions = {
        kernel: version for compiled in methods.values() for kernel, version in _resolve_kernels(compiled).items()
    }

    def make_goldens(measured: bool) -> list[GoldenRecord]:
        made = [
            make_golden(exported[name], compiled, k, seed=seed, weights=weights, measured=measured)
            for k, (name, compiled) in enumerate(methods.items())
        ]
        return [item for item in made if item is not None]

    goldens = make_goldens(measured=False) if golden else []
    data = _emit(methods, report, versions, goldens)
    if verify:
        try:
            report.method_cycles, report.launch_cycles = _verify(data, methods)
        except ExportError:
            # Results may be what rounding left of a difference; then no fixed tolerance is right.
            measured = make_goldens(measured=True) if goldens else goldens
            if measured == goldens:
                raise
            goldens, data = measured, _emit(methods, report, versions, measured)
            report.method_cycles, report.launch_cycles = _verify(data, methods)
        report.estimate_cycles = report.method_cycles[0]
        data = _emit(methods, report, versions, goldens)
        _runtime.validate(data)
    if sign is not None:
        data = add_signature(data, sign, _runtime.crc32c)
    report.file_bytes = len(data)
    if dump is not None:
        Dump(dump).listing(_listing(data))
    _write(Path(path), data)
    return report


def _resolve_kernels(compiled: Compiled) -> dict[str, int]:
    """Versions of the kernels. Raises ExportError for those that the device library lacks, in name or dtype."""
    versions: dict[str, int] = {}
    problems = []
    for inst in compiled.program.instructions:
        if not isinstance(inst, Launch):
            continue
        info = _runtime.kernel_info(inst.kernel)
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
) -> bytes:
    from .. import __version__, chip

    metadata = {
        "producer": f"torch_atalla {__version__}",
        "torch": torch.__version__.partition("+")[0],
        "chip": hashlib.sha256(chip.config_text(0).encode()).hexdigest(),
        "model": next(iter(methods.values())).captured.model,
        "coverage_ops": f"{report.coverage_ops:.6f}",
        "coverage_flops": f"{report.coverage_flops:.6f}",
        "report": replace(report, path="", launch_cycles=[], by_op=[]).to_json(indent=None),
    }
    for number, (name, compiled) in enumerate(methods.items()):
        captured = compiled.captured
        metadata |= {
            method_key("in_spec", name, number): dump_spec(captured.in_spec),
            method_key("out_spec", name, number): dump_spec(captured.out_spec),
            method_key("in_leaves", name, number): dump_leaves(captured.inputs),
            method_key("out_leaves", name, number): dump_leaves(captured.outputs),
        }
    return emit(
        methods,
        kernel_versions=versions,
        crc32c=_runtime.crc32c,
        metadata=metadata,
        estimate_cycles=report.method_cycles,
        goldens=goldens,
    )


def _verify(data: bytes, methods: Mapping[str, Compiled]) -> tuple[list[int], list[LaunchCycles]]:
    """Validates, loads and replays, and gives the simulated cycles; zeros when device 0 has no room."""
    from ..loadable import run_host_call

    program = _runtime.Program(data)
    try:
        program.load(0)
        program.set_host_call(lambda text, inputs, outputs: run_host_call(0, text, inputs, outputs))
        program.verify()
        counts = [len(compiled.program.instructions) for compiled in methods.values()]
        each = [program.estimate_each(number, count) for number, count in enumerate(counts)]
        return [sum(cycles) for cycles in each], _compared(each, methods)
    except _runtime.RuntimeLibraryError as error:
        if error.status == _OUT_OF_MEMORY:
            return [0] * len(methods), []
        if error.status == _FORMAT:
            raise ExportError(f"the program does not give what PyTorch does: {error}") from None
        raise
    finally:
        program.close()


def _listing(data: bytes) -> str:
    from ..inspect import render

    program = _runtime.Program(data)
    try:
        return render(program.describe())
    finally:
        program.close()


def _compared(each: list[list[int]], methods: Mapping[str, Compiled]) -> list[LaunchCycles]:
    found = []
    for cycles, (name, compiled) in zip(each, methods.items()):
        schedule, instructions = compiled.schedule, compiled.program.instructions
        for i, inst in enumerate(instructions if schedule.cores else ()):
            if isinstance(inst, Launch):
                charged = (schedule.baseline[i], schedule.predicted[i], cycles[i])
                found.append(LaunchCycles(name, inst.kernel, inst.node, schedule.cores[i], *charged))
    return found


def _write(path: Path, data: bytes) -> None:
    """Atomically: a reader sees the old file, or the whole new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
