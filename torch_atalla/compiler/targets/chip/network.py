# SPDX-License-Identifier: BSD-3-Clause
"""A whole network as one program: calls of kernels for every launch of a linear program, and a place for every buffer.

Numbers are BF16 in DRAM. A truth value or an FP32 temporary of the linear program becomes a BF16 as well (0 or 1 for
the former), and an integer of 8 or 16 bits becomes one of 32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from torch_atalla.isa.program import Program

from ...program.ir import Instruction
from .divide import Division
from .image import Image
from .kernels.pointwise import Unsupported

ALIGN = 64
SLACK = 4096  # bytes behind the arena and the constants that a tile may touch


class NoProgramError(NotImplementedError):
    """A launch has no Atalla program; the message names the kernel, the graph node and the reason."""


@dataclass
class Port:
    """An input or output as the caller sees it: sizes, strides and offset in elements, dtype, and its region."""

    name: str
    region: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int
    offset: int = 0


def element_bytes(dtype: torch.dtype) -> int:
    """Bytes of an element as the program keeps it."""
    if dtype is torch.int64:
        return 8
    if dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        return 4
    if dtype.is_floating_point or dtype is torch.bool:
        return 2
    raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}")


@dataclass(frozen=True)
class Selected:
    """A launch, the first of its calls, and how cores share it."""

    first_call: int
    launch: Instruction
    division: Division


@dataclass
class Network:
    """The result. `regions` of constants and temporaries are offsets in two blocks, `constants` and an arena."""

    image: Image = field(default_factory=Image)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    states: dict[str, tuple[Port, torch.Tensor]] = field(default_factory=dict)  # mutable buffers, with first values
    constants: bytearray = field(default_factory=bytearray)
    constant_offsets: dict[str, int] = field(default_factory=dict)
    arena_bytes: int = 0
    arena_offsets: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)  # temporaries in scratchpad 0: their first rows
    launches: list[Selected] = field(default_factory=list)  # in the order of their calls
    regions: dict[int, str] = field(default_factory=dict)  # of temporaries, by their buffers
    constant_buffers: set[int] = field(default_factory=set)
    scalar_calls: list[int] = field(default_factory=list)  # calls that run on the scalar core
    complete: dict[int, int] = field(default_factory=dict)  # buffer -> calls after which all of it is written
    groups: int = 0  # of registers, that the array takes; code for 0 runs on arrays of any size

    @property
    def chip(self) -> int | None:
        """Whose chip a machine with a DRAM of its own needs: that of device 0, or None for the built-in one."""
        return 0 if self.groups else None

    def code(self) -> Program:
        return self.image.link()

    def table(self, constants: int, arena: int, table: int, ports: Mapping[str, int]) -> bytes:
        """The table of calls, after `code`, for the addresses of the four kinds of memory; `ports` by region name."""
        regions = {"table": table, **ports}
        regions |= {name: constants + offset for name, offset in self.constant_offsets.items()}
        regions |= {name: arena + offset for name, offset in self.arena_offsets.items()}
        return self.image.table(regions)
