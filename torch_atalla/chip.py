# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the chip and of its simulation."""

from __future__ import annotations

import contextlib
import tomllib
from typing import Any

from .device.html_table import html_table
from .device.index import device_index
from .driver.extension import _C


class Config(dict[str, Any]):
    """Chip parameters by section and name: {"array": {"rows": {"value": ..., "unit": ..., "source": ...}}}."""

    def _repr_html_(self) -> str:
        rows = [
            (f"{section}.{name}", entry["value"], entry.get("unit", ""), entry.get("source", ""))
            for section, entries in self.items()
            if isinstance(entries, dict)
            for name, entry in entries.items()
            if isinstance(entry, dict) and "value" in entry
        ]
        return html_table(rows, ("parameter", "value", "unit", "source"))


def config(device: Any = None) -> Config:
    """Return all chip parameters, parsed from its TOML file. Sizes are in bytes, latencies in cycles."""
    return Config(tomllib.loads(config_text(device)))


def config_text(device: Any = None) -> str:
    """Return the text of the chip's TOML file, with the unit and the source of each parameter."""
    return _C.chip_config(device_index(device))


def kernels() -> list[str]:
    """Return the names of all kernels of the chip."""
    return _C.kernels()


def set_num_threads(threads: int) -> None:
    """Set the number of host threads of the functional engine. It changes the simulation's speed, not its results."""
    if threads < 1:
        raise ValueError(f"chip.set_num_threads: expected at least 1, got {threads}")
    _C.set_threads(threads)


def get_num_threads() -> int:
    """Return the number of host threads of the functional engine."""
    return _C.get_threads()


def engine(name: str, *, missing: str = "error") -> Any:
    """Return a context manager that selects the engine of eager ops.

    Args:
        name: "isa" compiles every computing op on atalla tensors to Atalla code (cached by op, sizes and dtypes) and
            runs it on the ISA engine; views, transfers and new tensors are not affected. "functional" changes nothing.
        missing: for an op without a program, "error" raises NoProgramError, which names the op; "functional" runs the
            op on the functional engine.
    """
    if name == "functional":
        return contextlib.nullcontext()
    if name != "isa":
        raise ValueError(f'chip.engine: expected "functional" or "isa", got {name!r}')
    from .compiler.targets.chip.eager import IsaMode  # imported lazily: only this engine needs the compiler

    return IsaMode(missing)
