# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the chip and of its simulation."""

from __future__ import annotations

import contextlib
import tomllib
from typing import Any

from .charges import CLOCKS, current_clock, reasons, use_clock
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


class clock(contextlib.ContextDecorator):  # noqa: N801, as torch.set_grad_enabled
    """Say what tells the cycles of launches; as a context manager or decorator, for a time.

    Args:
        name: "code" (default): a launch takes what its generated code takes. The code of each kind of launch is
            generated and run once, in about 10 ms and the time of the run, when somebody looks at a clock: counters,
            events, a profiler. A process that never looks generates none. In other dtypes than bfloat16, cycles are
            those of bfloat16 times the ratio of the elements' bytes. "roofline": what the launch would take at the
            chip's full rates, if each of its operands passed the bus once (docs/concepts/timing.md), a bound from
            below. It also tells launches without code: random numbers, quantized products.
            `telemetry.counters()` gives the cycles that an assumption or the roofline tells as `assumed_cycles`.

    Launches of a loadable that has Atalla code take what that code takes in any case. ATALLA_CLOCK names the clock that
    a process begins with. Raises ValueError for another name, RuntimeError if the device library cannot ask for code.
    """

    def __init__(self, name: str) -> None:
        self.name, self.before = name, current_clock()
        _set_clock(name)

    def __call__(self, function: Any) -> Any:
        _set_clock(self.before)  # as a decorator, it changes the clock of calls alone
        return super().__call__(function)

    def _recreate_cm(self) -> clock:
        return clock(self.name)

    def __enter__(self) -> clock:
        return self

    def __exit__(self, *_: Any) -> None:
        _set_clock(self.before)


def get_clock() -> str:
    """Return what tells the cycles of launches: "code" or "roofline"."""
    return current_clock()


def unknown_costs() -> dict[str, str]:
    """Return why the clock "code" has left launches to the roofline, by kernel."""
    return dict(reasons)


def _set_clock(name: str) -> None:
    if name not in CLOCKS:
        raise ValueError(f'chip.clock: expected "code" or "roofline", got {name!r}')
    if name == current_clock():
        return
    if not _C.takes_charge_provider():
        raise RuntimeError("chip.clock: the device library is of an older version; expected 1.6 or later")
    for ordinal in filter(_C.is_open, range(_C.device_count())):
        _C.counters(ordinal)  # a look: launches before take what the clock before tells
    use_clock(name)


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
