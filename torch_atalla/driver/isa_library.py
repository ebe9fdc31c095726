# SPDX-License-Identifier: BSD-3-Clause
"""The device library's interface for Atalla code (csrc/sim/abi/atalla_isa.h), through ctypes.

No device is opened here.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from . import c_abi
from .libraries import device_library_path, device_table

PROFILES = {"simulator": c_abi.ATALLA_ISA_SIMULATOR, "rne": c_abi.ATALLA_ISA_RNE}
DRAM_TIMINGS = {
    "specified": c_abi.ATALLA_ISA_DRAM_SPECIFIED,
    "ideal": c_abi.ATALLA_ISA_DRAM_IDEAL,
    "measured": c_abi.ATALLA_ISA_DRAM_MEASURED,
}
STOPS = ("halted", "budget", "breakpoint", "watchpoint", "fault")


class ExecutionError(RuntimeError):
    """A failed call of the engine. `status` is the ABI's name of what went wrong (`ATALLA_ERR_FAULT_ADDRESS`, ...)."""

    def __init__(self, text: str, status: str):
        super().__init__(text)
        self.status = status


class Library:
    def __init__(self, path: str):
        self.head = device_table(c_abi.atalla_api, c_abi.ATALLA_ABI_MAJOR)
        self.api = device_table(c_abi.atalla_isa_api, c_abi.ATALLA_ISA_ABI_MAJOR)
        if self.head is None or self.api is None:
            raise NotImplementedError(f"the device library {path} runs no Atalla code, or has another version of it")
        self.units = self._names(self.api.unit_name)
        self.stalls = self._names(self.api.stall_name)

    @staticmethod
    def _names(function: Any) -> list[str]:
        found: list[str] = []
        while (name := function(len(found))) is not None:
            found.append(name.decode())
        return found

    def device(self, ordinal: int) -> tuple[int, int]:
        """Handle of an open device, and the device address that is its programs' address 0."""
        handle, base = ctypes.c_void_p(), ctypes.c_uint64()
        self.check(self.api.device_find(ordinal, ctypes.byref(handle), ctypes.byref(base)))
        return handle.value or 0, base.value

    def default_stream(self, device: int) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        self.check(self.head.stream_default(device, ctypes.byref(stream)))
        return stream

    def check(self, status: int) -> None:
        if status:
            text = self.head.last_error().decode(errors="replace")
            raise ExecutionError(text, self.head.status_name(status).decode())


@lru_cache
def library() -> Library:
    """The chip's library, as the driver finds it."""
    return Library(device_library_path())


def _choice(what: str, known: dict[str, int], name: str) -> int:
    if name not in known:
        raise ValueError(f"{what} `{name}`; expected one of {', '.join(known)}")
    return known[name]


def params(
    entry: int,
    args: tuple[int, ...],
    profile: str,
    timing: bool,
    dram_timing: str,
    max_packets: int = 0,
    tag: int = 0,
    cores: int = 1,
) -> c_abi.atalla_isa_params:
    if len(args) > c_abi.ATALLA_ISA_MAX_ARGS:
        raise ValueError(f"{len(args)} arguments; a program takes at most {c_abi.ATALLA_ISA_MAX_ARGS}, in x10 and up")
    return c_abi.atalla_isa_params(
        struct_size=ctypes.sizeof(c_abi.atalla_isa_params),
        entry=entry,
        profile=_choice("profile", PROFILES, profile),
        no_timing=int(not timing),
        n_args=len(args),
        args=(ctypes.c_uint32 * c_abi.ATALLA_ISA_MAX_ARGS)(*(int(a) & 0xFFFFFFFF for a in args)),
        dram_timing=_choice("DRAM timing", DRAM_TIMINGS, dram_timing),
        max_packets=max_packets,
        tag=tag,
        cores=cores,
    )
