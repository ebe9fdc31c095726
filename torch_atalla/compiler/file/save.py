# SPDX-License-Identifier: BSD-3-Clause
"""`torch_atalla.save_loadable`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from torch_atalla.driver.files import write_whole
from torch_atalla.loadable.code import listing
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.report import LoadableReport

from ..capture.narrow import narrowed
from ..capture.shared_tensors import shared_tensors
from .functional import Options, Source, compile_methods, file_builder, methods_of

Level = Literal["none", "exact", "fast"]


def save_loadable(
    program: Source | Mapping[str, Source],
    path: str | os.PathLike[str],
    *,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    fallback: Literal["cpu", "error"] = "cpu",
    engine: Literal["functional", "isa"] = "functional",
    convert: Literal["bfloat16"] | None = None,
    verify: bool = True,
    optimize: Level | None = None,
    golden: bool = True,
    seed: int = 0,
    sign: bytes | None = None,
    fold: Literal["exact", "all", "none"] | None = None,
    epilogue: bool = False,
    weights: Literal["bfloat16", "int8"] | None = None,
    dump: str | os.PathLike[str] | None = None,
) -> LoadableReport:
    """Compiles an exported program and writes a loadable. The file appears only when it is complete.

    Args:
        program: an exported program or a module; or several as {method name: program}, which share the parameters and
            mutable buffers that are one tensor. A buffer that has only its name in common with one of an earlier
            method is another one, "name of the method:name of the buffer".
        path: the file, which is replaced if it exists.
        args, kwargs: example inputs, CPU tensors, for a module that is not exported yet.
        fallback: "cpu" runs ops without a kernel through torch on the host when the program runs; "error" refuses them.
        engine: "isa" adds the whole program as Atalla code (docs/concepts/isa-codegen.md), which needs a bfloat16
            model.
        convert: "bfloat16", with engine="isa", saves a float32 model converted to bfloat16; the report states the
            error.
        verify: check the bytes with the driver's validator, place the program on device 0 and replay its golden
            outputs before anything is written. Without it the report has no cycles.
        optimize: "exact", the default, joins launches and packs weights so that results are the bits of eager mode;
            "fast", the default with engine="isa", also does what changes their rounding (batch norm folded into
            convolutions, constants folded by the CPU, 16-bit results not rounded between joined ops); "none" launches
            what eager mode launches.
        golden: store what PyTorch gives on the CPU for inputs made from `seed`, in the range of the example inputs.
        seed: of the golden inputs.
        sign: an Ed25519 private key (32 bytes) to sign the file with.
        fold, epilogue: fold="all" and epilogue=True ask for single passes of "fast".
        weights: the dtype in which the weights of float32 products are stored; the arithmetic stays float32.
        dump: a directory for the graph or program before and after every pass, the plan, and the file's listing.

    Returns:
        Coverage, segments, bytes of weights and arena, cycles.

    Raises:
        ExportError: the program cannot become a loadable, or does not give what PyTorch does.
        UnsupportedOpsError: fallback="error", and ops are not native. It lists all of them.
        NoProgramError: engine="isa", and ops have no Atalla program. It lists all of them.
        OSError: the file cannot be written.

        report = torch_atalla.save_loadable(torch.export.export(model, (x,)), "model.atl", fallback="error")
    """
    if engine not in ("functional", "isa"):
        raise ExportError(f'engine: expected "functional" or "isa", got {engine!r}')
    if engine == "functional" and convert is not None:
        raise ExportError('convert: expected None; only engine="isa" converts models')
    if convert not in (None, "bfloat16"):
        raise ExportError(f'convert: expected "bfloat16" or None, got {convert!r}')
    chip = engine == "isa"
    more: dict[str, Any] = {}
    source = methods_of(program, args, kwargs)
    with torch.device("cpu"):  # what a caller has set as default may not hold the passes' constants
        shared = shared_tensors(source)
        exported = {name: narrowed(item, shared.states[name]) for name, item in source.items()} if convert else source
        if chip:
            from ..targets.chip.fusion import CHIP  # late: only this engine needs the chip target
            from .code import MethodsCode, add_code

            code = MethodsCode(exported)
            more |= {"target": CHIP, "cores": code.compile}
        methods = compile_methods(
            exported,
            shared,
            dump,
            fallback=fallback,
            optimize=optimize or ("fast" if chip else "exact"),
            fold=fold,
            epilogue=epilogue,
            weights=weights,
            **more,
        )
        builder = file_builder(path, exported, methods, Options(verify, golden, seed, weights, sign, dump))
        if shared.aliases:
            builder.metadata["state_names"] = json.dumps(shared.aliases)
        if chip:
            add_code(builder, code.networks, next(iter(source.values())) if convert else None)
        data = builder.build()
        write_whole(Path(path), data)
        if chip and dump is not None:
            (Path(dump) / "listing.s").write_text(listing(path))
        return builder.report
