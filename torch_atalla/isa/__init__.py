# SPDX-License-Identifier: BSD-3-Clause
"""Atalla code: assembler, disassembler, packet checker, text images, and running programs on the chip.

    program = torch_atalla.isa.assemble(text)             # or build one: Program, Packet, Instruction, ops
    print(torch_atalla.isa.disassemble(program))
    result = torch_atalla.isa.run(program, {0x4000: a})   # result.memory, .cycles, .stats

docs/guides/isa.md describes the language, docs/concepts/isa-engine.md the machine. Nothing here opens a device before
`run`.
"""

from .assembler import assemble
from .checker import Problem, check, check_packet
from .disassembler import disassemble, format_packet
from .engine import Code, ExecutionError, Machine, Result, Stats, dram_address, launch, run
from .errors import AssemblyError
from .instruction import EncodingError, Instruction, decode, format_instruction, ops
from .program import Packet, Program
from .table import PACKET_BYTES, REGISTER_BASE, SLOTS, Operand, Spec, register_name, table
from .text_image import from_text_image, read_text_image, to_text_image, write_text_image

__all__ = [
    "PACKET_BYTES", "REGISTER_BASE", "SLOTS", "AssemblyError", "Code", "EncodingError", "ExecutionError", "Instruction",
    "Machine", "Operand", "Packet", "Problem", "Program", "Result", "Spec", "Stats", "assemble", "check",
    "check_packet", "decode", "disassemble", "dram_address", "format_instruction", "format_packet", "from_text_image",
    "launch", "ops", "read_text_image", "register_name", "run", "table", "to_text_image", "write_text_image",
]  # fmt: skip
