# SPDX-License-Identifier: BSD-3-Clause
"""A tile program as one function of Atalla code: the loops over the grid, and what its descriptor holds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_atalla.isa.disassembler import disassemble
from torch_atalla.isa.program import Program
from torch_atalla.isa.table import PACKET_BYTES

from ....tile.ir import Function, TileError, Type
from ....tile.provenance import written_arguments
from ....tile.ttir import parse
from ..allocate import OutOfRegisters
from ..image import Image
from ..kernels.pointwise import Unsupported
from . import prefetch, scalars
from .generator import APART, ARENA, GRID, Generator
from .narrow import narrow_program


@dataclass
class TileCode:
    """Code for any grid and any arguments of the types for which it was generated. lines: of Python, for each packet of
    the function; 0 where there is none."""

    name: str
    program: Program
    parameters: list[str]
    address: int  # of the function
    arena_bytes: int
    arguments: list[Type]
    lines: list[int] = field(repr=False)
    written: set[int] | None = None

    def table(
        self, grid: Sequence[int], arguments: Sequence[int], memories: Sequence[Any], arena: int, place: int
    ) -> list[int]:
        """The table of calls at a DRAM address: the descriptor's address, 0, the descriptor.

        arguments: addresses, and bits of numbers; those of fractions are of FP32. memories: what memory each argument
        lies in; None for a number. arena: the address of `arena_bytes` of room.
        """
        words = dict(zip(GRID, grid, strict=True)) | {ARENA: arena, APART: self._is_apart(memories)}
        for i, bits in enumerate(arguments):
            words[f"a{i}"], words[f"a{i}_high"] = bits, bits >> 32
        return [place + 8, 0, self.address, *(words[name] & 0xFFFFFFFF for name in self.parameters)]

    def _is_apart(self, memories: Sequence[Any]) -> bool:
        """Whether no memory that the kernel writes is that of another argument."""
        held = {i: memory for i, memory in enumerate(memories) if memory is not None}
        return self.written is not None and all(
            held[i] != other for i in self.written & held.keys() for j, other in held.items() if j != i
        )

    def line_of(self, address: int) -> int:
        """Of Python, for a packet; 0 for one of the driver."""
        index = (address - self.address) // PACKET_BYTES
        return self.lines[index] if 0 <= index < len(self.lines) else 0

    def __str__(self) -> str:
        """The packets as assembly, with address and line."""
        shown, index = [], 0
        for text in disassemble(self.program, addresses=True).splitlines():
            if text.startswith(" "):
                line = self.line_of(index * PACKET_BYTES)
                text += f", line {line}" if line else ""
                index += 1
            shown.append(text)
        return "\n".join(shown)


def generate(functions: Sequence[Function]) -> TileCode:
    """The code of the module's public function. Raises TileError, with the line, for what it cannot express."""
    entry = next(f for f in functions if f.is_public)
    g = Generator(entry, written_arguments({f.name: f for f in functions}, entry))
    for position, value in enumerate(entry.arguments):
        g.values[value] = g.argument(position, value)
    if len(entry.body.blocks) != 1:
        raise TileError("an early return; Atalla code has loops and branches that join again", entry.location)
    core = g.core
    try:
        g.begin()
        with core.range(core.parameter(GRID[2])) as z, core.range(core.parameter(GRID[1])) as y:
            prefetch.plan(
                g,
                entry.body,
                {},
                lambda: scalars.less(core, scalars.add(core, g.program_ids[0], 1), core.parameter(GRID[0])),
                None,
                lambda: [scalars.add(core, g.program_ids[0], 1), *g.program_ids[1:]],
            )
            with core.range(core.parameter(GRID[0])) as x:
                g.program_ids = [x, y, z]
                with g.inside(entry.body.entry):
                    g.block(entry.body.entry)
        g.b.ret()
        image = Image()
        image.call(entry.name, lambda: g.b, dict.fromkeys(g.b.parameters, 0))
    except (Unsupported, OutOfRegisters, ValueError, AssertionError, ArithmeticError, LookupError, TypeError) as error:
        text = str(error)
        if not isinstance(error, Unsupported | OutOfRegisters):
            text = f"the code generator failed with {type(error).__name__}: {error}"
        raise TileError(text, g.op.location if g.op is not None else entry.location) from error
    program = image.link()
    function = image.functions[entry.name]
    lines: list[int] = []
    for packet in function.packets:
        found = [g.b.lines[inst] for inst in packet.slots if g.b.lines.get(inst)]
        lines.append(max(found, default=lines[-1] if lines else 0))
    arguments = [argument.type for argument in entry.arguments]
    parameters = list(function.parameters)
    return TileCode(entry.name, program, parameters, function.address, g.arena_bytes, arguments, lines, g.written)


@functools.lru_cache(maxsize=256)
def code_of(ttir: str) -> TileCode | TileError:
    """The code of a module's text, or why there is none."""
    try:
        return generate(parse(ttir))
    except TileError as error:
        return error


@functools.lru_cache(maxsize=256)
def narrow_code_of(ttir: str) -> tuple[TileCode, int]:
    """The code of a module's text with numbers of BF16 in memory, and the ratio of the bytes. Raises TileError."""
    functions = parse(ttir)
    factor = narrow_program(functions)
    return generate(functions), factor
