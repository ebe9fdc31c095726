# SPDX-License-Identifier: BSD-3-Clause
"""Atalla code in a file: the sections CODE, RELOCATIONS, CODE_WORDS, PACKETS and CONSTANTS
(docs/reference/loadable-format.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from torch_atalla.isa.program import Program

from .container import Checksum, Container, SectionData
from .format import CODE_VERSION, FORMATS, ISA_VERSION, STRIDES, Region, Section

Relocation = tuple[int, Region, int, int]  # word of the table, region, index of the port or state, offset in it

_KINDS = (Section.CODE, Section.RELOCATIONS, Section.CODE_WORDS, Section.PACKETS, Section.CONSTANTS)
_PACKET_BYTES = STRIDES[Section.PACKETS]


@dataclass
class MethodCode:
    """A method as Atalla code. `words` is the table of its calls, `code` has 20 bytes per packet."""

    method: int
    code: bytes
    words: list[int]
    relocations: list[Relocation]
    arena_bytes: int

    def program(self) -> Program:
        return Program.decode(self.code)


@dataclass
class CodeSection:
    """The code of a file: at most one record per method. All methods share the constants."""

    methods: list[MethodCode]
    constants: bytes

    def sections(self) -> list[SectionData]:
        content = {kind: bytearray() for kind in _KINDS}
        content[Section.CONSTANTS] += self.constants
        for method in self.methods:
            parts = {
                Section.PACKETS: method.code,
                Section.CODE_WORDS: struct.pack(f"<{len(method.words)}I", *method.words),
                Section.RELOCATIONS: b"".join(FORMATS[Section.RELOCATIONS].pack(*item) for item in method.relocations),
            }
            ranges = [size // STRIDES[kind] for kind, part in parts.items() for size in (len(content[kind]), len(part))]
            record = (method.method, CODE_VERSION, *ranges, method.arena_bytes)
            content[Section.CODE] += FORMATS[Section.CODE].pack(*record)
            for kind, part in parts.items():
                content[kind] += part
        return [SectionData(kind, data, stride=STRIDES[kind]) for kind, data in content.items()]


def find(data: bytes) -> CodeSection | None:
    """Return the code in a file's bytes, which the validator has seen; None if it has none."""
    container = Container.read(data)
    content = {kind: container.find(kind) or b"" for kind in _KINDS}
    words = struct.unpack(f"<{len(content[Section.CODE_WORDS]) // 4}I", content[Section.CODE_WORDS])
    relocations = [
        (word, Region(region), index, offset)
        for word, region, index, offset in FORMATS[Section.RELOCATIONS].iter_unpack(content[Section.RELOCATIONS])
    ]
    methods = []
    for record in FORMATS[Section.CODE].iter_unpack(content[Section.CODE]):
        method, _, packet, packets, word, n_words, relocation, n_relocations, arena_bytes = record
        code = content[Section.PACKETS][_PACKET_BYTES * packet : _PACKET_BYTES * (packet + packets)]
        of_method = relocations[relocation : relocation + n_relocations]
        methods.append(MethodCode(method, code, list(words[word : word + n_words]), of_method, arena_bytes))
    return CodeSection(methods, content[Section.CONSTANTS]) if methods else None


def attach(data: bytes, section: CodeSection, crc32c: Checksum) -> bytes:
    """Return the file with the code. Readers that do not know its sections skip them."""
    container = Container.read(data)
    kinds = [present.kind for present in container.sections]
    at = kinds.index(Section.WEIGHTS) if Section.WEIGHTS in kinds else len(kinds)
    container.sections[at:at] = section.sections()
    container.isa_version = ISA_VERSION
    return container.pack(crc32c)
