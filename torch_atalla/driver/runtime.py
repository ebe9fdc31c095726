# SPDX-License-Identifier: BSD-3-Clause
"""The driver's program interface (csrc/runtime/c_api/atalla_program.h) through ctypes.

Nothing else in the package knows that it is ctypes: `Program`, `validate`, `crc32c`, `kernel_info` and the copies are
the whole surface, in Python types.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .paths import LIBRARIES

_MAX_DIMS = 12
_RUN_HOST = 1


class RuntimeLibraryError(RuntimeError):
    """A failed call of the driver; the text is the driver's."""

    def __init__(self, status: int, name: str, text: str):
        super().__init__(text)
        self.status = status
        self.name = name


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("addr", ctypes.c_uint64),
        ("dtype", ctypes.c_uint8),
        ("ndim", ctypes.c_uint8),
        ("reserved", ctypes.c_uint8 * 6),
        ("sizes", ctypes.c_int64 * _MAX_DIMS),
        ("strides", ctypes.c_int64 * _MAX_DIMS),
    ]


class _ProgramInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("format_major", ctypes.c_uint16),
        ("format_minor", ctypes.c_uint16),
        ("methods", ctypes.c_uint32),
        ("kernels", ctypes.c_uint32),
        ("instructions", ctypes.c_uint32),
        ("segments", ctypes.c_uint32),
        ("host_calls", ctypes.c_uint32),
        ("nodes", ctypes.c_uint32),
        ("file_bytes", ctypes.c_uint64),
        ("arena_bytes", ctypes.c_uint64),
        ("weight_bytes", ctypes.c_uint64),
        ("device", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("scratchpad_bytes", ctypes.c_uint64),
    ]


class _RunParams(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("method", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("stream", ctypes.c_int64),
        ("inputs", ctypes.POINTER(_Tensor)),
        ("n_inputs", ctypes.c_size_t),
        ("outputs", ctypes.POINTER(_Tensor)),
        ("n_outputs", ctypes.c_size_t),
    ]


class _Replacement(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class _KernelInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("dtypes", ctypes.c_uint64),
    ]


_KERNEL_LOOKUP = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32))
_KERNEL_INFO = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32, ctypes.POINTER(_KernelInfo))


class _Api(ctypes.Structure):
    """The head of atalla_api, as far as the kernel table."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("abi_major", ctypes.c_uint32),
        ("abi_minor", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("before_kernels", ctypes.c_void_p * 26),  # last_error ... kernel_count
        ("kernel_lookup", _KERNEL_LOOKUP),
        ("kernel_info", _KERNEL_INFO),
    ]


_HOST_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_char_p,
    ctypes.POINTER(_Tensor),
    ctypes.c_size_t,
    ctypes.POINTER(_Tensor),
    ctypes.c_size_t,
)


@dataclass(frozen=True)
class TensorRef:
    """An address with dtype code, sizes and strides (elements)."""

    addr: int
    dtype: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def to_c(self) -> _Tensor:
        if len(self.sizes) > _MAX_DIMS:
            raise ValueError(f"expected at most {_MAX_DIMS} dimensions, got {len(self.sizes)}")
        tensor = _Tensor(addr=self.addr, dtype=self.dtype, ndim=len(self.sizes))
        for d, (size, stride) in enumerate(zip(self.sizes, self.strides)):
            tensor.sizes[d], tensor.strides[d] = size, stride
        return tensor

    @staticmethod
    def from_c(tensor: _Tensor) -> TensorRef:
        n = tensor.ndim
        return TensorRef(tensor.addr, tensor.dtype, tuple(tensor.sizes[:n]), tuple(tensor.strides[:n]))


# Called with the segment's JSON, its input and its output tensors on the device; an exception ends the run.
HostCallHandler = Callable[[str, list[TensorRef], list[TensorRef]], None]


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    path = LIBRARIES / "libatalla_runtime.so"
    if not path.is_file():
        raise ImportError(f"expected the driver library at {path}: build the package first (make build)")
    lib = ctypes.CDLL(str(path))
    program, status, text = ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "atalla_rt_last_error": (text, []),
        "atalla_rt_status_name": (text, [status]),
        "atalla_rt_open": (status, [ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]),
        "atalla_rt_copy_to_device": (status, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64]),
        "atalla_rt_copy_from_device": (status, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]),
        "atalla_crc32c": (ctypes.c_uint32, [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]),
        "atalla_program_validate": (status, [ctypes.c_void_p, ctypes.c_size_t]),
        "atalla_program_open_file": (status, [text, ctypes.POINTER(program)]),
        "atalla_program_open_to_load": (status, [text, ctypes.POINTER(program)]),
        "atalla_program_open_memory": (status, [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(program)]),
        "atalla_program_close": (None, [program]),
        "atalla_program_get_info": (status, [program, ctypes.POINTER(_ProgramInfo)]),
        "atalla_program_describe_json": (status, [program, ctypes.POINTER(text)]),
        "atalla_program_load": (status, [program, ctypes.c_int32]),
        "atalla_program_set_host_call": (status, [program, _HOST_CALL, ctypes.c_void_p]),
        "atalla_program_set_error": (None, [text]),
        "atalla_program_run": (status, [program, ctypes.POINTER(_RunParams)]),
        "atalla_program_verify": (status, [program, ctypes.POINTER(ctypes.c_uint32)]),
        "atalla_program_resolve": (status, [program, ctypes.c_uint32, *2 * (ctypes.POINTER(_Tensor), ctypes.c_size_t)]),
        "atalla_program_reset_state": (status, [program]),
        "atalla_program_read_state": (status, [program, text, ctypes.c_void_p, ctypes.c_size_t]),
        "atalla_program_write_state": (status, [program, text, ctypes.c_void_p, ctypes.c_size_t]),
        "atalla_program_replace": (status, [program, ctypes.POINTER(_Replacement), ctypes.c_size_t]),
        "atalla_golden_input": (
            status,
            [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint8, ctypes.c_double, ctypes.c_double, ctypes.c_uint64]
            + [ctypes.c_void_p],
        ),
        "atalla_program_estimate_each": (
            status,
            [program, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t],
        ),
        "atalla_program_estimate": (status, [program, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def available() -> bool:
    """Whether the driver library is there."""
    return (LIBRARIES / "libatalla_runtime.so").is_file()


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


def crc32c(data: bytes | bytearray, crc: int = 0) -> int:
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


def device_library_path() -> str:
    """The file of the library that stands behind the devices."""
    return os.environ.get("ATALLA_DEVICE_LIBRARY") or str(LIBRARIES / "libatalla_sim.so")


def device_library() -> DeviceLibrary:
    """The library that stands behind the devices."""
    path, api = device_library_path(), _device_api()
    isa = getattr(ctypes.CDLL(path), "atalla_sim_kernel_isa", None)
    if isa is not None:
        isa.restype = ctypes.c_char_p
    return DeviceLibrary(path, (api.abi_major, api.abi_minor), isa().decode() if isa is not None else None)


@lru_cache(maxsize=1)
def _device_api() -> _Api:
    path = device_library_path()
    lib = ctypes.CDLL(path)
    lib.atalla_get_api.restype = ctypes.c_int32
    lib.atalla_get_api.argtypes = [ctypes.c_uint32, ctypes.POINTER(ctypes.POINTER(_Api))]
    api = ctypes.POINTER(_Api)()
    if lib.atalla_get_api(1, ctypes.byref(api)) != 0:
        raise RuntimeError(f"{path} does not speak version 1 of the device ABI")
    return api.contents


def kernel_id(name: str) -> int | None:
    """The kernel's number in the device library of this process; None when it has no such kernel."""
    kernel = ctypes.c_uint32()
    found = _device_api().kernel_lookup(name.encode(), ctypes.byref(kernel)) == 0
    return kernel.value if found else None


def kernel_info(name: str) -> tuple[int, int] | None:
    """Version and mask of compute dtype codes of a kernel of the device library; None when it has no such kernel."""
    api, kernel = _device_api(), kernel_id(name)
    if kernel is None:
        return None
    info = _KernelInfo(struct_size=ctypes.sizeof(_KernelInfo))
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

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def describe(self) -> dict[str, Any]:
        """Everything but the weights' bytes."""
        text = ctypes.c_char_p()
        _check(_library().atalla_program_describe_json(self._open(), ctypes.byref(text)))
        return json.loads(text.value or b"{}")

    def info(self) -> dict[str, int]:
        info = _ProgramInfo(struct_size=ctypes.sizeof(_ProgramInfo))
        _check(_library().atalla_program_get_info(self._open(), ctypes.byref(info)))
        return {name: getattr(info, name) for name, *_ in _ProgramInfo._fields_ if name not in _HIDDEN}

    def load(self, device: int) -> None:
        _check(_library().atalla_program_load(self._open(), device))

    def estimate_each(self, method: int, instructions: int) -> list[int]:
        """Simulated cycles of each of the method's instructions, on the device where it is loaded."""
        cycles = (ctypes.c_uint64 * max(instructions, 1))()
        _check(_library().atalla_program_estimate_each(self._open(), method, cycles, instructions))
        return list(cycles)[:instructions]

    def estimate(self, method: int = 0) -> int:
        cycles = ctypes.c_uint64()
        _check(_library().atalla_program_estimate(self._open(), method, ctypes.byref(cycles)))
        return cycles.value

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
        records = (_Replacement * max(len(items), 1))()
        for record, (name, address, nbytes) in zip(records, items):
            record.name, record.data, record.bytes, record.flags = name.encode(), address, nbytes, int(on_device)
        _check(_library().atalla_program_replace(self._open(), records, len(items)))

    def set_host_call(self, handler: HostCallHandler) -> None:
        def callback(context, call, program, inputs, n_inputs, outputs, n_outputs):  # type: ignore[no-untyped-def]
            try:
                handler(
                    program.decode(),
                    [TensorRef.from_c(inputs[k]) for k in range(n_inputs)],
                    [TensorRef.from_c(outputs[k]) for k in range(n_outputs)],
                )
            except BaseException as error:  # noqa: BLE001 (must not cross C; raised again by run)
                self._errors.last = error
                _library().atalla_program_set_error(f"{type(error).__name__}: {error}".encode())
                return _ERR_KERNEL
            return 0

        self._callback = _HOST_CALL(callback)
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


_ERR_KERNEL = 42  # ATALLA_ERR_FAULT_KERNEL
_HIDDEN = ("struct_size", "reserved")
