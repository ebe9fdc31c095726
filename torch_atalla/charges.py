# SPDX-License-Identifier: BSD-3-Clause
"""The charges of launches, for the clock of the device library. It asks here about each kind of launch when somebody
looks at a clock."""

from __future__ import annotations

import ctypes
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from .driver import c_abi
from .driver.extension import _C

reasons: dict[str, str] = {}  # by kernel, why the latest kind of launch that was asked about has no code


def provide(ordinal: int, desc: int, desc_bytes: int, program: list[int], target: int) -> bool:
    """Write the charge of a launch into an atalla_launch_charge; False: there is none. Both structs are addresses.
    program: the words of the launch's vector program."""
    whole = c_abi.atalla_launch_desc()
    ctypes.memmove(ctypes.byref(whole), desc, min(desc_bytes, ctypes.sizeof(whole)))
    try:  # on a thread of its own: modes of dispatch, autocast and functorch must not meet the compiler
        charge = c_abi.atalla_launch_charge.from_address(target)
        reason = _thread(os.getpid()).submit(_write_charge, whole, program, ordinal, charge).result()
    except Exception as error:  # nothing may pass the device library
        reason = f"{type(error).__name__}: {error}"
    if reason:
        reasons[_C.kernels()[whole.kernel]] = reason
    return not reason


def _write_charge(desc: c_abi.atalla_launch_desc, program: list[int], ordinal: int, target: Any) -> str:
    """Why there is no charge, or ""."""
    from .compiler.targets.chip.clock import UnknownCost, charge  # imported lazily: most processes never ask

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


@functools.lru_cache(maxsize=1)
def _thread(process: int) -> ThreadPoolExecutor:
    """Of this process: threads do not survive a fork."""
    return ThreadPoolExecutor(1, "atalla clock")
