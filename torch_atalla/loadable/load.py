# SPDX-License-Identifier: BSD-3-Clause
"""Loading of a file's program onto a device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from torch_atalla.driver import runtime

from .errors import LoadableError
from .program import LoadedProgram
from .provenance import is_own

Device = str | int | torch.device


def load_loadable(
    path: str | os.PathLike[str],
    device: Device = "atalla",
    *,
    engine: str = "functional",
    operators: Sequence[str] = (),
) -> LoadedProgram:
    """Map and validate a loadable, and load it onto a device.

    Args:
        path: a file written by `save_loadable`.
        device: an atalla device, by name, ordinal or torch.device. Without an ordinal, the current device.
        engine: "functional" runs the file's kernel launches. "isa" runs its Atalla code, which only files saved with
            engine="isa" have; its parameters cannot be replaced, and `stats` of the program tells what a call did.

        operators: names of operators that the file's host calls may run beside those that are known to be pure, as
            patterns: "mylib::*", "aten::binomial". Such an operator runs with the arguments that the file gives
            (docs/concepts/trust.md). A file that this process saved, and that was not changed since, needs no names.

    Returns:
        The program. Call it like the exported module, with tensors on that device.

    Raises:
        FileNotFoundError: the file does not exist.
        LoadableError: the file is not a loadable, this installation or device cannot run it, the device has no room, or
            its host calls run operators that `operators` does not name. The text lists every problem.
        TypeError: `operators` is one string, not several.
        ValueError: the engine or device type is unknown, or engine="isa" and the file has no Atalla code.

        program = torch_atalla.load_loadable("model.atl", device="atalla:0")
        y = program(x.to("atalla:0"))
    """
    if engine not in runtime.ENGINES:
        raise ValueError(f'engine: expected "functional" or "isa", got {engine!r}')
    if isinstance(operators, str):
        raise TypeError(f"operators: expected a list of patterns, got the string {operators!r}")
    where = torch.device("atalla", device) if isinstance(device, int) else torch.device(device)
    if where.type != "atalla":
        raise ValueError(f"device: expected an atalla device, found {where}")
    if where.index is None:
        where = torch.device("atalla", torch.accelerator.current_device_index())
    name = os.fspath(path)
    if not Path(name).is_file():
        raise FileNotFoundError(f"{name}: no such file; expected a loadable")
    try:
        allowed = ("*",) if is_own(name) else operators
        return LoadedProgram(runtime.Program(name, to_load=True), where, name, engine, allowed)
    except (runtime.RuntimeLibraryError, LoadableError) as error:
        text = str(error)
        raise LoadableError(text if name in text else f"{name}: {text}") from None
