# SPDX-License-Identifier: BSD-3-Clause
"""Launches of tile programs for the clock: the code of their TTIR, run once on memory of the launch's sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_atalla.isa.engine import ExecutionError, Stats, run

from ....tile.ir import TileError, Type
from ....tile.launch import KnownLaunch, known
from ....tile.steps import STORED
from .narrow import FLOATS
from .program import TileCode, code_of, narrow_code_of

_PAGE, _GAP = 4096, 8192  # of places in DRAM; bytes between two of them
_HALF = 0x3F000000  # 0.5, of FP32: fractions do not decide the cycles
_MOST_PACKETS = 1 << 28  # a program that waits for another one never ends


def run_tile_program(digest: int, nbytes: Sequence[int], ordinal: int | None) -> tuple[Stats, int, bool]:
    """What the code takes, the factor for numbers that it has in BF16 and the launch in another dtype, and whether that
    is so. nbytes: of the launch's operands. Raises TileError if there is no code, ExecutionError if it faults."""
    launch = known.get(digest)
    if launch is None:
        raise TileError("a tile program that this process has neither launched nor compiled")
    code, factor = code_of(launch.ttir), 1
    is_narrow = isinstance(code, TileError)
    if isinstance(code, TileError):
        code, factor = narrow_code_of(launch.ttir)
    try:
        return _run(launch, code, nbytes, ordinal, 0), factor, is_narrow
    except ExecutionError:  # some code refuses integers in memory that are 0
        return _run(launch, code, nbytes, ordinal, 1), factor, is_narrow


def _run(launch: KnownLaunch, code: TileCode, nbytes: Sequence[int], ordinal: int | None, number: int) -> Stats:
    memory: dict[int, Any] = {}
    end = _PAGE

    def reserve(count: int) -> int:
        nonlocal end
        address, end = end, -(-(end + count + _GAP) // _PAGE) * _PAGE
        return address

    places = [reserve(count) for count in nbytes]
    for kind, (operand, _) in zip(code.arguments, launch.words, strict=True):
        if operand >= 0:
            memory.setdefault(places[operand], _example(kind, nbytes[operand], number))
    arguments = [
        places[operand] + bits if operand >= 0 else _HALF if kind.element in FLOATS else bits
        for kind, (operand, bits) in zip(code.arguments, launch.words, strict=True)
    ]
    memories = [operand if operand >= 0 else None for operand, _ in launch.words]
    arena, table = reserve(code.arena_bytes), reserve(4 * (3 + len(code.parameters)))
    words = code.table(launch.grid, arguments, memories, arena, table)
    memory[table] = b"".join(word.to_bytes(4, "little") for word in words)
    return run(code.program, memory, args=(table,), dram_bytes=end, chip=ordinal, max_packets=_MOST_PACKETS).stats


def _example(kind: Type, nbytes: int, number: int) -> Any:
    """Memory of elements to which an argument points: fractions from 0.1 to 0.9, integers that are `number`."""
    dtype = STORED[kind.pointee or "i8"]
    pattern = torch.full((4096,), number, dtype=dtype)
    if dtype.is_floating_point:
        pattern = torch.rand(4096, generator=torch.Generator().manual_seed(0)).mul(0.8).add(0.1).to(dtype)
    return pattern.view(torch.uint8).repeat(-(-nbytes // (4096 * dtype.itemsize)))[:nbytes].numpy()
