# SPDX-License-Identifier: BSD-3-Clause
"""The clock: the source of the cycles of launches. The device library asks here about each kind of launch when a clock
is read. Importing torch imports this file, so that it imports the compiler and all else late."""

from __future__ import annotations

import atexit
import functools
import os
import warnings
from typing import TYPE_CHECKING, Any

from .driver.extension import _C

if TYPE_CHECKING:
    from .driver import c_abi

CLOCKS = ("code", "roofline")
reasons: dict[str, str] = {}  # by kernel, why the latest kind of launch that was asked about has no code
_clock = ["roofline"]


def current_clock() -> str:
    """Return the name of the clock."""
    return _clock[0]


def use_clock(name: str) -> None:
    """Let launches from now on, and those before after which no clock was read, take the cycles of this clock."""
    _C.set_charge_provider(provide if name == "code" else None)
    atexit.unregister(_C.set_charge_provider)
    if name == "code":
        atexit.register(_C.set_charge_provider, None)  # the interpreter must not be asked when it has ended
    _clock[0] = name


def use_clock_of_environment() -> None:
    """Use the clock that ATALLA_CLOCK names, by default "code"; another name gives a warning."""
    name = os.environ.get("ATALLA_CLOCK") or "code"
    if name not in CLOCKS:
        warnings.warn(f"ATALLA_CLOCK: expected code or roofline, got {name}; using code", stacklevel=2)
        name = "code"
    use_clock(name)


def provide(ordinal: int, desc: int, desc_bytes: int, program: list[int], target: int) -> bool:
    """Write the charge of a launch into an atalla_launch_charge; False: there is none. Both structs are addresses.
    program: the words of the launch's vector program."""
    import ctypes

    from .driver import c_abi

    whole = c_abi.atalla_launch_desc()
    ctypes.memmove(ctypes.byref(whole), desc, min(desc_bytes, ctypes.sizeof(whole)))
    charge = c_abi.atalla_launch_charge.from_address(target)
    try:
        reason = _write_charge(whole, program, ordinal, charge)
    except Exception as error:  # nothing may pass the device library
        reason = f"{type(error).__name__}: {error}"
    if reason:
        reasons[_C.kernels()[whole.kernel]] = reason
    return not reason


def _write_charge(desc: c_abi.atalla_launch_desc, program: list[int], ordinal: int, target: Any) -> str:
    """Why there is no charge, or ""."""
    import torch

    from .compiler.targets.chip.clock import UnknownCost, charge

    try:
        with torch.no_grad():
            charge(desc, program, _chip(ordinal), ordinal).write(target)
    except UnknownCost as error:
        return str(error)
    return ""


@functools.lru_cache(maxsize=64)
def _chip(ordinal: int) -> Any:
    from .compiler.schedule.chip_model import chip_model

    return chip_model(_C.chip_config(ordinal))
