# SPDX-License-Identifier: BSD-3-Clause
"""The `.in` text image, the exchange format of the chip team's tools.

AAAAAAAA: HHHHHHHHHH HHHHHHHHHH HHHHHHHHHH HHHHHHHHHH     one line a packet, slot 0 first, # begins a comment
.data
AAAAAAAA: WWWWWWWW                                        32-bit words, little-endian in DRAM
"""

from __future__ import annotations

import os
import re

import numpy as np

from .errors import AssemblyError
from .instruction import EncodingError, decode
from .program import Program, Slot
from .table import PACKET_BYTES, SLOTS

_LINE = re.compile(r"\s*([0-9A-Fa-f]{1,8})\s*:\s*([0-9A-Fa-f\s]*)$")


def to_text_image(program: Program, comment: str = "") -> str:
    """The program as a text image. ValueError if its data do not consist of aligned 32-bit words."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for index, row in enumerate(program.slots().tolist()):
        lines.append(f"{index * PACKET_BYTES:08X}: " + " ".join(f"{word:010X}" for word in row))
    lines.append(".data")
    for address, raw in sorted(program.data.items()):
        if address % 4 or len(raw) % 4:
            raise ValueError(f"data at {address:#x}, {len(raw)} bytes; a text image holds aligned 32-bit words")
        for i, word in enumerate(np.frombuffer(raw, "<u4").tolist()):
            lines.append(f"{address + 4 * i:08X}: {word:08X}")
    return "\n".join(lines) + "\n"


def from_text_image(text: str, where: str = "") -> Program:
    """The program of a text image; AssemblyError names line and column. Packets must follow each other."""
    program = Program()
    cache: dict[str, Slot] = {}
    in_data = False
    start = end = -1
    words: list[int] = []
    seen: set[int] = set()

    def flush() -> None:
        if words:
            program.data[start] = np.array(words, "<u4").tobytes()

    for number, line in enumerate(text.splitlines(), 1):
        code = line.partition("#")[0].rstrip()
        if not code.strip():
            continue
        if code.strip() == ".data":
            in_data = True
            continue
        match = _LINE.match(code)
        if match is None:
            raise AssemblyError("expected ADDRESS: HEX ...", number, len(code) - len(code.lstrip()) + 1, line, where)
        address, groups = int(match[1], 16), match[2].split()
        column = match.start(2) + 1
        size, count = (8, 1) if in_data else (10, SLOTS)
        if len(groups) != count or any(len(g) > size for g in groups):
            reason = f"expected {count} number(s) of {size} hexadecimal digits"
            raise AssemblyError(reason, number, column, line, where)
        if in_data:
            if address % 4:
                raise AssemblyError(f"address {address:08X} is not a multiple of 4", number, 1, line, where)
            if address != end:
                flush()
                start, words = address, []
            if address in seen:
                raise AssemblyError(f"address {address:08X} appears twice", number, 1, line, where)
            seen.add(address)
            words.append(int(groups[0], 16))
            end = address + 4
            continue
        expected = len(program) * PACKET_BYTES
        if address != expected:
            raise AssemblyError(f"address {address:08X}; expected {expected:08X}", number, 1, line, where)
        packet: list[Slot] = []
        for group in groups:
            if group not in cache:
                try:
                    cache[group] = decode(int(group, 16))
                except EncodingError:
                    cache[group] = int(group, 16)
            packet.append(cache[group])
        program.packets.append(packet)
    flush()
    return program


def write_text_image(program: Program, path: str | os.PathLike, comment: str = "") -> None:
    """Write a program to a file as a text image."""
    with open(path, "w") as file:
        file.write(to_text_image(program, comment))


def read_text_image(path: str | os.PathLike) -> Program:
    """Return the program of a text image in a file."""
    with open(path) as file:
        return from_text_image(file.read(), os.fspath(path))
