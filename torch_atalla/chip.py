# SPDX-License-Identifier: BSD-3-Clause
"""The chip's configuration and the host side of its simulation."""

from __future__ import annotations

import contextlib
import tomllib
from typing import Any

from .device.index import device_index
from .driver.extension import _C


def config(device: Any = None) -> dict[str, Any]:
    """All parameters of the chip (sizes in bytes, latencies in cycles), parsed from its TOML file."""
    return tomllib.loads(config_text(device))


def config_text(device: Any = None) -> str:
    """The chip's TOML file, with the unit and the source of each parameter."""
    return _C.chip_config(device_index(device))


def kernels() -> list[str]:
    """Names of all kernels of the chip."""
    return _C.kernels()


def set_num_threads(threads: int) -> None:
    """Host threads of the functional engine. Changes how fast the simulation runs, never its results."""
    if threads < 1:
        raise ValueError(f"chip.set_num_threads: expected at least 1, got {threads}")
    _C.set_threads(threads)


def get_num_threads() -> int:
    return _C.get_threads()


def engine(name: str, *, missing: str = "error") -> Any:
    """A context in which eager ops run on another engine.

    "isa": every op on atalla tensors that computes becomes a program of Atalla code (cached by op, sizes, dtypes) and
    runs on the ISA engine; views, transfers and fresh tensors stay as they are. missing: what becomes of an op without
    a program, "error" (NoProgramError, which names it) or "functional". "functional": no change.
    """
    if name == "functional":
        return contextlib.nullcontext()
    if name != "isa":
        raise ValueError(f'chip.engine: expected "functional" or "isa", got {name!r}')
    from .compiler.targets.chip.eager import IsaMode  # late: only this engine needs the compiler

    return IsaMode(missing)
