# SPDX-License-Identifier: BSD-3-Clause
"""Compile, check and write a loadable."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import _runtime
from .dtypes import CODES
from .dtypes import name as dtype_name
from .emit import emit
from .errors import ExportError
from .ir import Launch
from .leaves import dump_leaves, dump_spec
from .pipeline import Compiled, compile_program
from .report import LoadableReport, make_report

_OUT_OF_MEMORY = 30  # ATALLA_ERR_OUT_OF_MEMORY


def save_loadable(
    program: torch.export.ExportedProgram | torch.nn.Module,
    path: str | os.PathLike,
    *,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    fallback: str = "cpu",
    engine: str = "functional",
    verify: bool = True,
    fold: str = "exact",
    epilogue: bool = False,
) -> LoadableReport:
    """Compiles and writes a loadable; gives the report.

    fallback: "cpu" runs ops without a kernel through torch on the host when the program runs; "error" refuses them, all
    listed in one UnsupportedOpsError. args, kwargs: example inputs, for a module that is not exported yet. verify:
    check the bytes with the driver's validator and place the program on a device, before anything is written.
    fold="all" and epilogue=True give faster programs whose results may differ from eager mode by rounding; by default
    they are the same bits.

    The file appears only when it is complete.
    """
    if engine != "functional":
        raise ExportError(
            f'engine: expected "functional", got {engine!r}; programs for other engines are not written yet'
        )
    compiled = compile_program(program, args, kwargs, fallback=fallback, fold=fold, epilogue=epilogue)
    report = make_report(compiled, path=os.fspath(path), engine=engine)
    versions = _resolve_kernels(compiled)
    data = _emit(compiled, report, versions)
    if verify:
        report.estimate_cycles = _verify(data)
        data = _emit(compiled, report, versions)
        _runtime.validate(data)
    report.file_bytes = len(data)
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


def _emit(compiled: Compiled, report: LoadableReport, versions: Mapping[str, int]) -> bytes:
    from .. import __version__, chip

    captured = compiled.captured
    metadata = {
        "producer": f"torch_atalla {__version__}",
        "torch": torch.__version__.partition("+")[0],
        "chip": hashlib.sha256(chip.config_text(0).encode()).hexdigest(),
        "model": captured.model,
        "in_spec": dump_spec(captured.in_spec),
        "out_spec": dump_spec(captured.out_spec),
        "in_leaves": dump_leaves(captured.inputs),
        "out_leaves": dump_leaves(captured.outputs),
        "coverage_ops": f"{report.coverage_ops:.6f}",
        "coverage_flops": f"{report.coverage_flops:.6f}",
        "report": replace(report, path="").to_json(indent=None),
    }
    return emit(
        compiled,
        kernel_versions=versions,
        crc32c=_runtime.crc32c,
        metadata=metadata,
        estimate_cycles=report.estimate_cycles,
    )


def _verify(data: bytes) -> int:
    """Validates and loads the bytes, and gives the estimate in cycles; 0 when device 0 has no room for the program."""
    program = _runtime.Program(data)
    try:
        program.load(0)
        return program.estimate()
    except _runtime.RuntimeLibraryError as error:
        if error.status == _OUT_OF_MEMORY:
            return 0
        raise
    finally:
        program.close()


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
