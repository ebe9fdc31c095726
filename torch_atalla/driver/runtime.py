# SPDX-License-Identifier: BSD-3-Clause
"""The driver's program interface (csrc/runtime/c_api/atalla_program.h) through ctypes.

Callers pass and get Python types: `Program`, `validate`, `crc32c`, `kernel_info` and the copies hide ctypes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from . import c_abi
from .libraries import device_library_path, device_table
from .paths import LIBRARIES


class RuntimeLibraryError(RuntimeError):
    """A failed call of the driver; the text is the driver's."""

    def __init__(self, status: int, name: str, text: str):
        super().__init__(text)
        self.status = status
        self.name = name


@dataclass(frozen=True)
class TensorRef:
    """An address with dtype code, sizes and strides (elements)."""

    addr: int
    dtype: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def from_c(tensor: c_abi.atalla_tensor) -> TensorRef:
        n = tensor.ndim
        return TensorRef(tensor.addr, tensor.dtype, tuple(tensor.sizes[:n]), tuple(tensor.strides[:n]))


ENGINES = {"functional": c_abi.ATALLA_ENGINE_FUNCTIONAL, "isa": c_abi.ATALLA_ENGINE_ISA}

# Called with the segment's JSON, its input and its output tensors on the device; an exception ends the run.
HostCallHandler = Callable[[str, list[TensorRef], list[TensorRef]], None]


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    path = LIBRARIES / "libatalla_runtime.so"
    if not path.is_file():
        raise ImportError(f"expected the driver library at {path}: build the package first (make build)")
    return c_abi.bind(ctypes.CDLL(str(path)))


def _check(status: int) -> None:
    if status != 0:
        lib = _library()
        name = lib.atalla_rt_status_name(status).decode()
        raise RuntimeLibraryError(status, name, lib.atalla_rt_last_error().decode(errors="replace"))


def _address(data: Any) -> tuple[int, int]:
    """Address and length of a bytes-like object, which must outlive its use."""
    if isinstance(data, bytes):
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0, len(data)
    view = memoryview(data)
    return (ctypes.addressof(ctypes.c_char.from_buffer(data)) if view.nbytes else 0), view.nbytes


def crc32c(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    address, length = _address(data)
    return _library().atalla_crc32c(crc, address, length)


def validate(data: bytes | bytearray) -> None:
    """Checks the bytes of a loadable; raises with every problem."""
    address, length = _address(data)
    _check(_library().atalla_program_validate(address, length))


def golden_input(seed: int, number: int, dtype: int, low: float, high: float, elements: int, address: int) -> None:
    """Fills host memory with the elements of input `number` of a golden (docs/reference/loadable-format.md)."""
    _check(_library().atalla_golden_input(seed, number, dtype, low, high, elements, address))


@lru_cache
def _device(ordinal: int) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    _check(_library().atalla_rt_open(ordinal, None, ctypes.byref(device)))
    return device


def copy_to_device(device: int, address: int, host: int, nbytes: int) -> None:
    """Copies from host memory at `host`; has finished when it returns."""
    if nbytes:
        _check(_library().atalla_rt_copy_to_device(_device(device), address, host, nbytes))


def copy_from_device(device: int, host: int, address: int, nbytes: int) -> None:
    if nbytes:
        _check(_library().atalla_rt_copy_from_device(_device(device), host, address, nbytes))


@dataclass(frozen=True)
class DeviceLibrary:
    path: str
    abi: tuple[int, int]
    host_isa: str | None  # instruction set of the simulator's kernels; None for another device library


def device_library() -> DeviceLibrary:
    """The library that stands behind the devices."""
    path, api = device_library_path(), device_api()
    isa = getattr(ctypes.CDLL(path), "atalla_sim_kernel_isa", None)
    if isa is not None:
        isa.restype = ctypes.c_char_p
    return DeviceLibrary(path, (api.abi_major, api.abi_minor), isa().decode() if isa is not None else None)


def device_api() -> c_abi.atalla_api:
    api = device_table(c_abi.atalla_api, c_abi.ATALLA_ABI_MAJOR)
    if api is None:
        raise RuntimeError(f"{device_library_path()} does not speak version {c_abi.ATALLA_ABI_MAJOR} of the device ABI")
    return api


def device_error() -> str:
    """The text of the latest error of the device library in this thread."""
    return str(device_api().last_error().decode())


def kernel_id(name: str) -> int | None:
    """The kernel's number in the device library of this process; None when it has no such kernel."""
    kernel = ctypes.c_uint32()
    found = device_api().kernel_lookup(name.encode(), ctypes.byref(kernel)) == 0
    return kernel.value if found else None


def kernel_info(name: str) -> tuple[int, int] | None:
    """Version and mask of compute dtype codes of a kernel of the device library; None when it has no such kernel."""
    api, kernel = device_api(), kernel_id(name)
    if kernel is None:
        return None
    info = c_abi.atalla_kernel_info(struct_size=ctypes.sizeof(c_abi.atalla_kernel_info))
    return (info.version, info.dtypes) if api.kernel_info(kernel, ctypes.byref(info)) == 0 else None


class Program:
    """A validated loadable, on a device or not yet.

    to_load: load() compares the checksum of the weights, not this; of a file.
    """

    def __init__(self, source: str | os.PathLike | bytes, *, to_load: bool = False):
        lib = _library()
        handle = ctypes.c_void_p()
        if isinstance(source, bytes):
            address, length = _address(source)
            _check(lib.atalla_program_open_memory(address, length, ctypes.byref(handle)))
        else:
            open_path = lib.atalla_program_open_to_load if to_load else lib.atalla_program_open_file
            _check(open_path(os.fsencode(source), ctypes.byref(handle)))
        self._handle: ctypes.c_void_p | None = handle
        self._callback: Any = None
        self._errors = threading.local()  # what a host call raised, in the thread that runs it

    def close(self) -> None:
        """Waits for its work and frees its memory. Calling it again does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _library().atalla_program_close(handle)

    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:  # Python's end takes names away
        if getattr(self, "_handle", None) is not None and not ends():
            self.close()

    def describe(self) -> dict[str, Any]:
        """Everything but the weights' bytes."""
        text = ctypes.c_char_p()
        _check(_library().atalla_program_describe_json(self._open(), ctypes.byref(text)))
        return json.loads(text.value or b"{}")

    def info(self) -> dict[str, int]:
        info = c_abi.atalla_program_info(struct_size=ctypes.sizeof(c_abi.atalla_program_info))
        _check(_library().atalla_program_get_info(self._open(), ctypes.byref(info)))
        return {name: getattr(info, name) for name, *_ in c_abi.atalla_program_info._fields_ if name not in _HIDDEN}

    def load(self, device: int, engine: str = "functional") -> None:
        _check(_library().atalla_program_load_engines(self._open(), device, ENGINES[engine]))

    def code_stats(self) -> c_abi.atalla_isa_stats:
        """What the latest run of Atalla code did."""
        stats = c_abi.atalla_isa_stats(struct_size=ctypes.sizeof(c_abi.atalla_isa_stats))
        _check(_library().atalla_program_get_stats(self._open(), ctypes.byref(stats)))
        return stats

    def estimate_each(self, method: int, instructions: int) -> list[int]:
        """Simulated cycles of each of the method's instructions, on the device where it is loaded."""
        cycles = (ctypes.c_uint64 * max(instructions, 1))()
        _check(_library().atalla_program_estimate_each(self._open(), method, cycles, instructions))
        return list(cycles)[:instructions]

    def estimate(self, method: int = 0) -> int:
        cycles = ctypes.c_uint64()
        _check(_library().atalla_program_estimate(self._open(), method, ctypes.byref(cycles)))
        return cycles.value

    def estimate_joules(self, method: int = 0) -> float:
        """Simulated joules of the method's launches, on the device where it is loaded."""
        energy = c_abi.atalla_energy()
        _check(_library().atalla_program_estimate_energy(self._open(), method, ctypes.byref(energy)))
        return sum(getattr(energy, part) for part, *_ in energy._fields_) / 1e15

    def verify(self) -> int:
        """Replays the golden outputs; raises with every difference, and gives how many goldens there are."""
        count = ctypes.c_uint32()
        self._errors.last = None
        self._check_call(_library().atalla_program_verify(self._open(), ctypes.byref(count)))
        return count.value

    def reset_state(self) -> None:
        _check(_library().atalla_program_reset_state(self._open()))

    def read_state(self, name: str, host: int, nbytes: int) -> None:
        _check(_library().atalla_program_read_state(self._open(), name.encode(), host, nbytes))

    def write_state(self, name: str, host: int, nbytes: int) -> None:
        _check(_library().atalla_program_write_state(self._open(), name.encode(), host, nbytes))

    def replace(self, items: Sequence[tuple[str, int, int]], *, on_device: bool = False) -> None:
        """Replaces parameters and buffers, given as (name, address, bytes), all at once."""
        records = (c_abi.atalla_replacement * max(len(items), 1))()
        for record, (name, address, nbytes) in zip(records, items):
            record.name, record.data, record.bytes, record.flags = name.encode(), address, nbytes, int(on_device)
        _check(_library().atalla_program_replace(self._open(), records, len(items)))

    def set_host_call(self, handler: HostCallHandler) -> None:
        errors = self._errors  # not self: a cycle would keep the program's device memory until the next collection

        def callback(context, call, program, inputs, n_inputs, outputs, n_outputs):  # type: ignore[no-untyped-def]
            try:
                handler(
                    program.decode(),
                    [TensorRef.from_c(inputs[k]) for k in range(n_inputs)],
                    [TensorRef.from_c(outputs[k]) for k in range(n_outputs)],
                )
            except BaseException as error:  # noqa: BLE001 (must not cross C; raised again by run)
                errors.last = error
                _library().atalla_program_set_error(f"{type(error).__name__}: {error}".encode())
                return c_abi.ATALLA_ERR_FAULT_KERNEL
            return 0

        self._callback = c_abi.atalla_host_call(callback)
        _check(_library().atalla_program_set_host_call(self._open(), self._callback, None))

    @property
    def handle(self) -> int:
        """The driver's handle, for who calls the driver from C++; legal until close."""
        return self._open().value or 0

    def _check_call(self, status: int) -> None:
        """Raises what a host call of this thread raised, or the driver's error."""
        error, self._errors.last = getattr(self._errors, "last", None), None
        if error is not None:
            raise error
        _check(status)

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise RuntimeError("the program is closed")
        return self._handle


_HIDDEN = ("struct_size", "reserved")
