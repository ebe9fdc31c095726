# SPDX-License-Identifier: BSD-3-Clause
"""Loadables with Atalla code: `save_loadable(..., engine="isa")`."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from torch_atalla.driver import runtime
from torch_atalla.driver.files import write_whole
from torch_atalla.loadable.code import listing, port_layouts
from torch_atalla.loadable.description import describe
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.call_sites import KEY, dump_calls
from torch_atalla.loadable.file.code_section import attach
from torch_atalla.loadable.file.signature import add_signature
from torch_atalla.loadable.load import load_loadable
from torch_atalla.loadable.report import LoadableReport

from ..targets.chip.build import CompiledNetwork, compile_model, to_bfloat16
from ..targets.chip.check import call_arguments, check_network, example_inputs
from ..targets.chip.ports import same_layout
from ..targets.chip.section import call_sites, of_network
from .functional import save_functional


def save_with_code(
    program: torch.export.ExportedProgram | torch.nn.Module | Mapping,
    path: str | os.PathLike,
    *,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    convert: str | None = None,
    sign: bytes | None = None,
    **options: Any,
) -> LoadableReport:
    """Writes the file that the functional engine runs, and adds the code of the whole program to it.

    convert="bfloat16": of a float32 model, a copy in bfloat16 is saved, and the report states how far the chip's
    results for the example inputs are from the float32 model's. Raises NoProgramError, which names the first op without
    a program, and ExportError, which names the first node, when the code gives other values than the functional engine
    for the example inputs (check.py). Gives the report.
    """
    if convert not in (None, "bfloat16"):
        raise ExportError(f'convert: expected "bfloat16" or None, got {convert!r}')
    if isinstance(program, Mapping):
        raise ExportError('engine="isa": expected one program, got several methods')
    expected = None
    if convert is not None:
        program, args, kwargs, expected = _converted(program, args, kwargs)
    source: Any = program
    compiled = compile_model(source, args, kwargs)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        functional = Path(folder) / target.name
        sites = {KEY: dump_calls(call_sites(compiled))}
        report = save_functional(program, functional, args=args, kwargs=kwargs, sign=None, metadata=sites, **options)
        _check(compiled, os.fspath(functional))
        data = attach(functional.read_bytes(), of_network(compiled.network, compiled.code), runtime.crc32c)
        if sign is not None:
            data = add_signature(data, sign, runtime.crc32c)  # of the code, too
        runtime.validate(data)
    write_whole(target, data)  # at once: a reader sees the file with code, or none
    if options.get("dump") is not None:
        (Path(options["dump"]) / "listing.s").write_text(listing(target))
    report.path, report.engine, report.file_bytes = os.fspath(path), "isa", len(data)
    report.code = _facts(compiled)
    if expected is not None:
        report.code |= _error(compiled, args, kwargs, expected)
    return report


def _check(compiled: CompiledNetwork, path: str) -> None:
    """The code against the file's functional program: the same ports, and the same values but for rounding."""
    inputs, outputs = port_layouts(describe(path))
    network = compiled.network
    for port, (name, dtype, sizes, strides) in zip(
        [*network.inputs, *network.outputs], [*inputs, *outputs], strict=True
    ):
        if (port.dtype, port.sizes) != (dtype, sizes) or not same_layout(sizes, port.strides, strides):
            raise ExportError(
                f"the chip code's port {name} is {port.dtype} of {list(port.sizes)} with strides {list(port.strides)}; "
                f"the program's is {dtype} of {list(sizes)} with strides {list(strides)}"
            )
    given = example_inputs(compiled)
    try:
        functional = load_loadable(path)
        args, kwargs = call_arguments(compiled, [x.to(functional.device) for x in given])
        found = functional(*args, **kwargs)
    except torch.OutOfMemoryError:  # then with what PyTorch gives on the CPU
        check_network(compiled, given)
        return
    check_network(compiled, given, [x for x in torch.utils._pytree.tree_leaves(found) if isinstance(x, torch.Tensor)])


def _converted(program: Any, args: tuple | None, kwargs: Mapping[str, Any] | None) -> tuple:
    """The program in bfloat16, its example inputs, and what the program as it was gives for them."""
    if isinstance(program, torch.export.ExportedProgram):
        if args is None and kwargs is None:
            if program.example_inputs is None:
                raise ExportError("convert: the exported program has no example inputs; give args=(...)")
            args, kwargs = program.example_inputs
        module = program.module()
    else:
        module = program
    with torch.no_grad():
        expected = module(*(args or ()), **(kwargs or {}))
        narrow = copy.deepcopy(module).to(torch.bfloat16)
        args, kwargs = torch.utils._pytree.tree_map(to_bfloat16, (tuple(args or ()), dict(kwargs or {})))
        exported = torch.export.export(narrow, args, kwargs)
    return exported, args, kwargs, expected


def _facts(compiled: CompiledNetwork) -> dict[str, Any]:
    image = compiled.network.image
    return {
        "packets": len(compiled.code),
        "functions": len(image.functions),
        "calls": len(image.calls),
        "constant_bytes": len(compiled.network.constants),
        "arena_bytes": compiled.network.arena_bytes,
    }


def _error(compiled: CompiledNetwork, args: Any, kwargs: Any, expected: Any) -> dict[str, Any]:
    """Runs the code on the example inputs, and compares with the float32 model."""
    leaves = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    run = compiled.run(leaves)
    wanted = [x for x in torch.utils._pytree.tree_leaves(expected) if isinstance(x, torch.Tensor)]
    cosines, worst = [], 0.0
    for found, exact in zip(run.outputs, wanted):
        a, b = found.double().flatten(), exact.double().flatten()
        cosines.append(torch.nn.functional.cosine_similarity(a, b, 0).item())
        worst = max(worst, float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)))
    return {"cosine": min(cosines, default=1.0), "largest_error": worst, "cycles": run.stats.cycles}
