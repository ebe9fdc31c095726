# SPDX-License-Identifier: BSD-3-Clause
"""The device library's interface for Atalla code (csrc/sim/abi/atalla_isa.h), through ctypes.

Nothing else in the package knows that it is ctypes. No device is opened here.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any

from .paths import LIBRARIES

MAX_ARGS = 8
_UNITS, _STALLS = 16, 32
_MAJOR = 1
PROFILES = {"simulator": 0, "rne": 1}
DRAM_TIMINGS = {"specified": 0, "ideal": 1, "measured": 2}
STOPS = ("halted", "budget", "breakpoint", "watchpoint", "fault")
X, V, M, PC, DRAM, SCRATCHPAD, WEIGHTS = range(7)

_Handle = ctypes.c_void_p
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64


class Params(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32),
        ("entry", _u32),
        ("profile", _u32),
        ("no_timing", _u32),
        ("n_args", _u32),
        ("args", _u32 * MAX_ARGS),
        ("dram_timing", _u32),
        ("max_packets", _u64),
        ("tag", _u64),
    ]


class RawStats(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32),
        ("stop", _u32),
        *((name, _u64) for name in ("packets", "instructions", "cycles", "dram_bytes_read", "dram_bytes_written")),
        *((name, _u64) for name in ("transfers", "services", "branches_taken", "macs", "bus_cycles")),
        ("unit_instructions", _u64 * _UNITS),
        ("unit_cycles", _u64 * _UNITS),
        ("stall_cycles", _u64 * _STALLS),
    ]


def _function(*arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)


_name = ctypes.CFUNCTYPE(ctypes.c_char_p, _u32)
_params, _stats = ctypes.POINTER(Params), ctypes.POINTER(RawStats)
_out = ctypes.POINTER(_Handle)
_memory = _function(_Handle, _u32, _u64, _u64, ctypes.c_void_p)


class _Api(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32),
        ("abi_major", _u32),
        ("abi_minor", _u32),
        ("reserved", _u32),
        ("device_find", _function(ctypes.c_int32, _out, ctypes.POINTER(_u64))),
        ("program_create", _function(_Handle, ctypes.c_void_p, _u64, _out)),
        ("program_destroy", _function(_Handle)),
        ("launch", _function(_Handle, _Handle, _params, _stats)),
        ("machine_create", _function(_Handle, _u64, _Handle, _params, _out)),
        ("machine_destroy", _function(_Handle)),
        ("machine_run", _function(_Handle, _u64, ctypes.POINTER(_u32))),
        ("machine_stats", _function(_Handle, _stats)),
        ("machine_read", _memory),
        ("machine_write", _memory),
        ("machine_break", _function(_Handle, _u32, _u32)),
        ("machine_watch", _function(_Handle, _u32, _u64, _u64, _u32)),
        ("machine_profile", _function(_Handle, ctypes.POINTER(_u64), _u64)),
        ("unit_name", _name),
        ("stall_name", _name),
    ]


class _Head(ctypes.Structure):  # of atalla_api in atalla.h
    _fields_ = [
        ("struct_size", _u32),
        ("abi_major", _u32),
        ("abi_minor", _u32),
        ("reserved", _u32),
        ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("status_name", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int32)),
        ("unused", ctypes.c_void_p * 11),  # device_count to stream_destroy
        ("stream_default", _function(_Handle, _out)),
        ("stream_query", _function(_Handle)),
        ("stream_synchronize", _function(_Handle)),
    ]


class ExecutionError(RuntimeError):
    """A failed call of the engine. `status` is the ABI's name of what went wrong (`ATALLA_ERR_FAULT_ADDRESS`, ...)."""

    def __init__(self, text: str, status: str):
        super().__init__(text)
        self.status = status


class Library:
    def __init__(self, path: str):
        library = ctypes.CDLL(path)
        if not hasattr(library, "atalla_get_isa_api"):
            raise NotImplementedError(f"the device library {path} runs no Atalla code")
        head = ctypes.POINTER(_Head)()
        library.atalla_get_api(_MAJOR, ctypes.byref(head))
        self._head = head.contents
        api = ctypes.POINTER(_Api)()
        if library.atalla_get_isa_api(_MAJOR, ctypes.byref(api)) or api.contents.struct_size < ctypes.sizeof(_Api):
            raise NotImplementedError(f"the device library {path} has another version of the ISA interface")
        self.api = api.contents
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
        handle, base = _Handle(), _u64()
        self.check(self.api.device_find(ordinal, ctypes.byref(handle), ctypes.byref(base)))
        return handle.value or 0, base.value

    def default_stream(self, device: int) -> ctypes.c_void_p:
        stream = _Handle()
        self.check(self._head.stream_default(device, ctypes.byref(stream)))
        return stream

    def clear_fault(self, stream: ctypes.c_void_p) -> None:
        """Of a launch whose error was read."""
        self._head.stream_synchronize(stream)

    def check(self, status: int) -> None:
        if status:
            text = self._head.last_error().decode(errors="replace")
            raise ExecutionError(text, self._head.status_name(status).decode())


@lru_cache
def library() -> Library:
    """The chip's library, as the driver finds it."""
    return Library(os.environ.get("ATALLA_DEVICE_LIBRARY") or str(LIBRARIES / "libatalla_sim.so"))


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
) -> Params:
    if len(args) > MAX_ARGS:
        raise ValueError(f"{len(args)} arguments; a program takes at most {MAX_ARGS}, in x10 and up")
    return Params(
        struct_size=ctypes.sizeof(Params),
        entry=entry,
        profile=_choice("profile", PROFILES, profile),
        no_timing=int(not timing),
        n_args=len(args),
        args=(_u32 * MAX_ARGS)(*(int(a) & 0xFFFFFFFF for a in args)),
        dram_timing=_choice("DRAM timing", DRAM_TIMINGS, dram_timing),
        max_packets=max_packets,
        tag=tag,
    )
