# SPDX-License-Identifier: BSD-3-Clause
"""The section of a loadable that holds Atalla code, and adding it to a file. Layout: docs/concepts/isa-codegen.md."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from torch_atalla.isa.program import Program

from .container import Checksum, Container, SectionData

KIND = 64
VERSION = 1
TABLE, CONSTANTS, ARENA, PORTS = range(4)  # regions of a relocation; PORTS + i is port i, inputs first

_HEAD = struct.Struct("<8I2Q")  # version, code bytes, table words, relocations, inputs, outputs, 2 reserved; bytes
_RELOCATION = struct.Struct("<IIQ")  # word of the table, region, offset in it


@dataclass
class CodeSection:
    """A network as it stands in a file."""

    code: bytes
    words: list[int]
    relocations: list[tuple[int, int, int]]
    port_bytes: list[int]
    inputs: int
    constants: bytes
    arena_bytes: int

    def table(self, addresses: list[int]) -> bytes:
        """The table for the DRAM addresses of the table, constants, arena and ports."""
        words = list(self.words)
        for word, region, offset in self.relocations:
            words[word] = (addresses[region] + offset) & 0xFFFFFFFF
        return struct.pack(f"<{len(words)}I", *words)

    def program(self) -> Program:
        return Program.decode(self.code)

    def encode(self) -> bytes:
        outputs = len(self.port_bytes) - self.inputs
        counts = (VERSION, len(self.code), len(self.words), len(self.relocations), self.inputs, outputs, 0, 0)
        parts = [
            _HEAD.pack(*counts, len(self.constants), self.arena_bytes),
            struct.pack(f"<{len(self.port_bytes)}Q", *self.port_bytes),
            b"".join(_RELOCATION.pack(*item) for item in self.relocations),
            struct.pack(f"<{len(self.words)}I", *self.words),
            self.code,
            self.constants,
        ]
        return b"".join(parts)


def decode(data: bytes) -> CodeSection:
    """Raises ValueError for what is no code section of this version."""
    try:
        return _decode(data)
    except struct.error as error:
        raise ValueError(f"the code section is cut short: {error}") from None


def _decode(data: bytes) -> CodeSection:
    version, code_bytes, n_words, n_relocations, inputs, outputs, _, _, constant_bytes, arena = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"the code section has version {version}; this package reads {VERSION}")
    place = _HEAD.size
    sizes = [8 * (inputs + outputs), _RELOCATION.size * n_relocations, 4 * n_words, code_bytes, constant_bytes]
    if place + sum(sizes) != len(data):
        raise ValueError(f"the code section has {len(data)} bytes; its header announces {place + sum(sizes)}")
    parts = []
    for size in sizes:
        parts.append(data[place : place + size])
        place += size
    ports, relocations, words, code, constants = parts
    moved = list(_RELOCATION.iter_unpack(relocations))
    if any(word >= n_words or region >= PORTS + inputs + outputs for word, region, _ in moved):
        raise ValueError("the code section relocates a word or names a region that it does not have")
    table, nbytes = struct.unpack(f"<{n_words}I", words), struct.unpack(f"<{inputs + outputs}Q", ports)
    return CodeSection(code, list(table), moved, list(nbytes), inputs, constants, arena)


def find(data: bytes) -> CodeSection | None:
    """The code section of a file's bytes, which the validator has seen."""
    content = Container.read(data).find(KIND)
    return None if content is None else decode(content)


def attach(data: bytes, section: CodeSection, crc32c: Checksum) -> bytes:
    """The file with the section. Readers that do not know it skip it."""
    container = Container.read(data)
    container.sections.append(SectionData(KIND, section.encode()))
    container.isa_version = 1
    return container.pack(crc32c)
