# SPDX-License-Identifier: BSD-3-Clause
"""How much work a launch is, asked of the device library (csrc/sim/abi/atalla_schedule.h).

A kernel counts its own bytes and instructions, so that no second list of formulas could disagree. What the counts mean
in cycles is chip_model.py's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_atalla.driver import c_abi, runtime
from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.libraries import device_table

from ..program.immediates import pack_immediate
from ..program.ir import AnyOperand, Immediate, Launch, Operand

_SOMEWHERE = 1 << 20  # an address: only 0 has a meaning

# What the work of a launch depends on of the chip: the members of atalla_geometry, and where the chip file has them.
GEOMETRY = {
    "vector_lanes": ("vector", "lanes"),
    "array_rows": ("array", "rows"),
    "array_columns": ("array", "columns"),
    "scratchpad_bytes": ("scratchpad", "bytes"),
    "sdma_tile_rows": ("sdma", "tile_rows"),
    "sdma_tile_columns": ("sdma", "tile_columns"),
    "sdma_element_bytes": ("sdma", "element_bytes"),
    "bus_width_bytes": ("bus", "width_bytes"),
    "sdma_queue_depth": ("sdma", "queue_depth"),
    "vector_occupancy_cycles": ("vector", "occupancy_cycles"),
    "array_latency_cycles": ("array", "latency_cycles"),
}
Geometry = tuple[int, ...]  # values of GEOMETRY

_COUNTS = ("parts", "working_bytes", "bytes_read", "bytes_written", "written")


@dataclass(frozen=True)
class Work:
    """Work of one launch; operands are numbered outputs first, as in its descriptor.

    raw: all counts of the device library. written: mask of the outputs. parts: into how many equal parts cores can
    divide the launch. working_bytes: of the scratchpads, for the tiles under way. operand_bytes: what each operand has
    of bytes_read or bytes_written when all lie in DRAM. block_bytes: what blocks of such an operand take of the
    scratchpads.
    """

    raw: c_abi.atalla_launch_work
    parts: int
    working_bytes: int
    bytes_read: int
    bytes_written: int
    written: int
    operand_bytes: tuple[int, ...]
    block_bytes: tuple[int, ...]

    def scratchpad_bytes(self, resident: int = 0) -> int:
        """What the launch needs of the scratchpads beside the operands that lie there (a mask)."""
        blocks = sum(count for k, count in enumerate(self.block_bytes) if not resident >> k & 1)
        return self.working_bytes + blocks


Measure = Callable[[Launch, Geometry], "Work | None"]


def measure(launch: Launch, geometry: Geometry) -> Work | None:
    """The work of a launch on a chip; None when the device library does not know the kernel or tells no work."""
    api = device_table(c_abi.atalla_schedule_api, c_abi.ATALLA_SCHEDULE_ABI_MAJOR)
    kernel = runtime.kernel_id(launch.kernel)
    if api is None or kernel is None:
        return None
    operands: tuple[AnyOperand, ...] = (*launch.outputs, *launch.inputs)
    desc = c_abi.atalla_launch_desc(kernel=kernel, n_outputs=len(launch.outputs), n_operands=len(operands))
    desc.compute_dtype = CODES[launch.compute_dtype]
    for k, number in enumerate(launch.iparams):
        desc.iparams[k] = int(number)
    for k, real in enumerate(launch.fparams):
        desc.fparams[k] = real
    for place, operand in zip(desc.operands, operands):
        _fill(place, operand)
    work = c_abi.atalla_launch_work(struct_size=ctypes.sizeof(c_abi.atalla_launch_work))
    chip = c_abi.atalla_geometry(ctypes.sizeof(c_abi.atalla_geometry), *geometry)
    if api.launch_work_on(ctypes.byref(chip), ctypes.byref(desc), ctypes.sizeof(desc), ctypes.byref(work)) != 0:
        return None
    n = len(operands)
    counts = {name: int(getattr(work, name)) for name in _COUNTS}
    return Work(
        raw=work, **counts, operand_bytes=tuple(work.operand_bytes[:n]), block_bytes=tuple(work.block_bytes[:n])
    )


def _fill(place: Any, operand: AnyOperand) -> None:
    if isinstance(operand, Immediate):
        place.immediate, place.dtype = 1, CODES[operand.dtype]
        packed = pack_immediate(operand)
        ctypes.memmove(place.sizes, packed, len(packed))
    elif isinstance(operand, Operand):
        place.addr, place.dtype, place.ndim = _SOMEWHERE, CODES[operand.dtype], len(operand.sizes)
        for d, (size, stride) in enumerate(zip(operand.sizes, operand.strides)):
            place.sizes[d], place.strides[d] = int(size), int(stride)
