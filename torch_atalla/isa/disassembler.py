# SPDX-License-Identifier: BSD-3-Clause
"""The disassembler. What it prints, the assembler reads back to the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .instruction import Instruction, Slot, format_instruction
from .program import Program
from .table import PACKET_BYTES


def format_packet(packet: Sequence[Slot], index: int = 0, labels: Mapping[int, str] | None = None) -> str:
    """One packet on one line: braces where more than slot 0 is used, trailing nop.s left out."""
    shown = [format_instruction(slot, index, labels) for slot in packet]
    while len(shown) > 1 and shown[-1] == "nop.s":
        shown.pop()
    return shown[0] if len(shown) == 1 else "{ " + "; ".join(shown) + " }"


def branch_targets(program: Program) -> dict[int, str]:
    """Packet index -> label: the program's own, and one for each other target of a branch or jump."""
    labels = {index: name for name, index in reversed(program.labels.items())}
    for index, packet in enumerate(program):
        for slot in packet:
            if isinstance(slot, Instruction) and slot.spec.is_branch:
                for operand, value in zip(slot.spec.operands, slot.values):
                    if operand.kind in ("branch", "jump") and not isinstance(value, str):
                        target, rest = divmod(index * PACKET_BYTES + value, PACKET_BYTES)
                        if not rest and 0 <= target <= len(program):
                            labels.setdefault(target, f"L{target}")
    return labels


def disassemble(code: Program | bytes | bytearray | memoryview | np.ndarray, addresses: bool = False) -> str:
    """Assembly text of a program or of code bytes. `addresses` puts each packet's into a comment."""
    program = code if isinstance(code, Program) else Program.decode(code)
    labels = branch_targets(program)
    lines: list[str] = [f".equ {name}, {value}" for name, value in program.symbols.items()]
    for index, packet in enumerate(program):
        if index in labels:
            lines.append(f"{labels[index]}:")
        text = format_packet(packet, index, labels)
        lines.append(f"    {text:<60} # {index * PACKET_BYTES:08X}" if addresses else f"    {text}")
    if len(program) in labels:
        lines.append(f"{labels[len(program)]}:")
    if program.data:
        lines.append(".data")
    for address, raw in program.data.items():
        lines.append(f".org {address:#x}")
        words = np.frombuffer(raw[: len(raw) // 4 * 4], "<u4").tolist()
        for i in range(0, len(words), 8):
            lines.append("    .word " + ", ".join(f"0x{w:08X}" for w in words[i : i + 8]))
        rest = raw[len(raw) // 4 * 4 :]
        for i in range(0, len(rest) - 1, 2):
            lines.append(f"    .half {int.from_bytes(rest[i : i + 2], 'little')}")
        if len(rest) % 2:
            raise ValueError(f"data at {address:#x} has an odd number of bytes ({len(raw)})")
    return "\n".join(lines) + "\n"
