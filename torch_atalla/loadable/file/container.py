# SPDX-License-Identifier: BSD-3-Clause
"""The container of a loadable (docs/reference/loadable-format.md, Layout): header, section table, sections."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from .format import ENTRY_LAYOUT, HEADER_LAYOUT, MAGIC, MAJOR, MINOR, SECTION_ALIGNMENT, WEIGHTS_ALIGNMENT, Section

MIN_RUNTIME = 1 << 16

Checksum = Callable[[bytes | bytearray | memoryview], int]


@dataclass
class SectionData:
    kind: int
    content: bytes | bytearray | memoryview
    flags: int = 0
    stride: int = 1
    crc: int | None = None  # None: not known yet


@dataclass
class Container:
    sections: list[SectionData] = field(default_factory=list)  # in the order of the file
    major: int = MAJOR
    minor: int = MINOR
    min_runtime: int = MIN_RUNTIME
    isa_version: int = 0

    @staticmethod
    def read(data: bytes) -> Container:
        """Of bytes that the validator has seen."""
        _, major, minor, _, runtime, isa, _, place, count, stride, *_ = HEADER_LAYOUT.unpack_from(data)
        sections, view = [], memoryview(data)
        for k in range(count):
            kind, flags, offset, size, record, crc = ENTRY_LAYOUT.unpack_from(data, place + k * stride)
            sections.append(SectionData(kind, view[offset : offset + size], flags, record, crc))
        return Container(sections, major, minor, runtime, isa)

    def find(self, kind: int) -> bytes | None:
        return next((bytes(section.content) for section in self.sections if section.kind == kind), None)

    def pack(self, crc32c: Checksum) -> bytes:
        table = bytearray()
        first = HEADER_LAYOUT.size
        offset = first + ENTRY_LAYOUT.size * len(self.sections)
        parts: list[bytes | bytearray | memoryview] = []  # joined at the end: weights are copied once
        for section in self.sections:
            place = _align(offset, WEIGHTS_ALIGNMENT if section.kind == Section.WEIGHTS else SECTION_ALIGNMENT)
            size, crc = len(section.content), section.crc
            if crc is None:
                assert not isinstance(section.content, memoryview)
                crc = crc32c(section.content)
            table += ENTRY_LAYOUT.pack(section.kind, section.flags, place, size, section.stride, crc)
            parts += [bytes(place - offset), section.content]
            offset = place + size
        file_bytes = _align(offset, SECTION_ALIGNMENT)
        versions = (MAGIC, self.major, self.minor, first, self.min_runtime, self.isa_version)
        table_place = (file_bytes, first, len(self.sections), ENTRY_LAYOUT.size, crc32c(table))
        header = HEADER_LAYOUT.pack(*versions, *table_place, 0, 0)[:-4]
        header += struct.pack("<I", crc32c(header))
        return b"".join([header, table, *parts, bytes(file_bytes - offset)])


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
