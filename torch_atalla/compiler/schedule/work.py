# SPDX-License-Identifier: BSD-3-Clause
"""How much work a launch is, asked of the device library (csrc/sim/abi/atalla_schedule.h).

A kernel counts its own bytes and instructions, so that no second list of formulas could disagree. What the counts mean
in cycles is chip_model.py's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch_atalla.driver import runtime
from torch_atalla.driver.dtypes import CODES

from ..program.immediates import pack_immediate
from ..program.ir import AnyOperand, Immediate, Launch, Operand

_MAX = 12  # operands, dimensions, parameters
_MAJOR = 1
_SOMEWHERE = 1 << 20  # an address: only 0 has a meaning
_u8, _u32, _u64, _i64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64


class _Operand(ctypes.Structure):
    _fields_ = [
        ("addr", _u64),
        ("dtype", _u8),
        ("ndim", _u8),
        ("immediate", _u8),
        ("reserved", _u8 * 5),
        ("sizes", _i64 * _MAX),
        ("strides", _i64 * _MAX),
    ]


class _Desc(ctypes.Structure):
    _fields_ = [
        ("kernel", _u32),
        ("n_outputs", _u8),
        ("n_operands", _u8),
        ("compute_dtype", _u8),
        ("cores", _u8),
        ("tag", _u64),
        ("iparams", _i64 * _MAX),
        ("fparams", ctypes.c_double * _MAX),
        ("operands", _Operand * _MAX),
    ]


class _Work(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32),
        ("shared", _u32),
        ("written", _u32),
        ("reserved", _u32),
        *((name, _u64) for name in ("vector_ops", "exp_ops", "array_rows", "weight_rows", "tiles", "parts")),
        *((name, _u64) for name in ("working_bytes", "bytes_read", "bytes_written")),
        ("operand_bytes", _u64 * _MAX),
        ("block_bytes", _u64 * _MAX),
        ("beats", _u64),
    ]


# What the work of a launch depends on of the chip: atalla_geometry, and the chip file's parameters.
GEOMETRY = {
    "vector_lanes": ("vector", "lanes", _u32),
    "array_rows": ("array", "rows", _u32),
    "array_columns": ("array", "columns", _u32),
    "scratchpad_bytes": ("scratchpad", "bytes", _u64),
    "sdma_tile_rows": ("sdma", "tile_rows", _u32),
    "sdma_tile_columns": ("sdma", "tile_columns", _u32),
    "sdma_element_bytes": ("sdma", "element_bytes", _u32),
    "bus_width_bytes": ("bus", "width_bytes", _u32),
}
Geometry = tuple[int, ...]  # values of GEOMETRY


class _Geometry(ctypes.Structure):
    _fields_ = [("struct_size", _u32), *((name, kind) for name, (_, _, kind) in GEOMETRY.items())]


_COUNTS: tuple[str, ...] = ("vector_ops", "exp_ops", "array_rows", "weight_rows", "tiles", "parts", "working_bytes")
_COUNTS += ("bytes_read", "bytes_written", "shared", "written", "beats")
_ARGUMENTS = (ctypes.POINTER(_Desc), ctypes.c_size_t, ctypes.POINTER(_Work))
_LAUNCH_WORK = ctypes.CFUNCTYPE(ctypes.c_int32, *_ARGUMENTS)
_LAUNCH_WORK_ON = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Geometry), *_ARGUMENTS)


class _Api(ctypes.Structure):
    _fields_ = [
        ("struct_size", _u32),
        ("abi_major", _u32),
        ("abi_minor", _u32),
        ("reserved", _u32),
        ("launch_work", _LAUNCH_WORK),
        *((name, ctypes.c_void_p) for name in ("scratchpad_base", "core_count", "scratchpad_reserve")),
        ("launch_work_on", _LAUNCH_WORK_ON),
    ]


@dataclass(frozen=True)
class Work:
    """Counts of one launch; operands are numbered outputs first, as in its descriptor.

    shared, written: masks of operands, those that each core reads whole, and outputs. parts: into how many equal parts
    cores can divide the launch. working_bytes: of the scratchpads, for the tiles under way. operand_bytes: what each
    operand has of bytes_read or bytes_written when all lie in DRAM. block_bytes: what blocks of such an operand take of
    the scratchpads. beats: of the bus, where rows are shorter than it is wide; 0: those of the bytes.
    """

    vector_ops: int
    exp_ops: int
    array_rows: int
    weight_rows: int
    tiles: int
    parts: int
    working_bytes: int
    bytes_read: int
    bytes_written: int
    operand_bytes: tuple[int, ...]
    block_bytes: tuple[int, ...]
    shared: int
    written: int
    beats: int = 0

    def scratchpad_bytes(self, resident: int = 0) -> int:
        """What the launch needs of the scratchpads beside the operands that lie there (a mask)."""
        blocks = sum(count for k, count in enumerate(self.block_bytes) if not resident >> k & 1)
        return self.working_bytes + blocks


Measure = Callable[[Launch, Geometry], "Work | None"]


def measure(launch: Launch, geometry: Geometry) -> Work | None:
    """The work of a launch on a chip; None when the device library does not know the kernel or tells no work."""
    api = _api()
    kernel = runtime.kernel_id(launch.kernel)
    if api is None or kernel is None:
        return None
    operands: tuple[AnyOperand, ...] = (*launch.outputs, *launch.inputs)
    desc = _Desc(kernel=kernel, n_outputs=len(launch.outputs), n_operands=len(operands))
    desc.compute_dtype = CODES[launch.compute_dtype]
    for k, number in enumerate(launch.iparams):
        desc.iparams[k] = int(number)
    for k, real in enumerate(launch.fparams):
        desc.fparams[k] = real
    for place, operand in zip(desc.operands, operands):
        _fill(place, operand)
    work = _Work(struct_size=ctypes.sizeof(_Work))
    chip = _Geometry(ctypes.sizeof(_Geometry), *geometry)
    if api.launch_work_on(ctypes.byref(chip), ctypes.byref(desc), ctypes.sizeof(desc), ctypes.byref(work)) != 0:
        return None
    n = len(operands)
    counts = {name: int(getattr(work, name)) for name in _COUNTS}
    return Work(**counts, operand_bytes=tuple(work.operand_bytes[:n]), block_bytes=tuple(work.block_bytes[:n]))


def _fill(place: Any, operand: AnyOperand) -> None:
    if isinstance(operand, Immediate):
        place.immediate, place.dtype = 1, CODES[operand.dtype]
        packed = pack_immediate(operand)
        ctypes.memmove(place.sizes, packed, len(packed))
    elif isinstance(operand, Operand):
        place.addr, place.dtype, place.ndim = _SOMEWHERE, CODES[operand.dtype], len(operand.sizes)
        for d, (size, stride) in enumerate(zip(operand.sizes, operand.strides)):
            place.sizes[d], place.strides[d] = int(size), int(stride)


@lru_cache(maxsize=1)
def _api() -> Any:
    library = ctypes.CDLL(runtime.device_library_path())
    if not hasattr(library, "atalla_get_schedule_api"):
        return None
    get = library.atalla_get_schedule_api
    get.restype, get.argtypes = ctypes.c_int32, [_u32, ctypes.POINTER(ctypes.POINTER(_Api))]
    table = ctypes.POINTER(_Api)()
    known = get(_MAJOR, ctypes.byref(table)) == 0 and table.contents.abi_minor >= 2
    return table.contents if known else None
