# SPDX-License-Identifier: BSD-3-Clause
"""Atalla code in a file: the sections CODE, RELOCATIONS, CODE_WORDS, PACKETS and CONSTANTS
(docs/reference/loadable-format.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from torch_atalla.isa.program import Program

from .container import Checksum, Container, SectionData
from .format import CODE_VERSION, DIVIDED_CODE_VERSION, FORMATS, ISA_VERSION, STRIDES, Region, Section

Relocation = tuple[int, Region, int, int]  # word of the table, region, index of the port or state, offset in it

_KINDS = (Section.CODE, Section.RELOCATIONS, Section.CODE_WORDS, Section.PACKETS, Section.CONSTANTS)
_SIZED_RUNTIME = 0x00010004  # the first driver version that runs code for several sizes
_PACKET_BYTES = STRIDES[Section.PACKETS]


@dataclass
class MethodCode:
    """A method as Atalla code. `words` is the table of its calls, `code` has 20 bytes per packet. symbols: the values
    of the method's symbols that the table is for. divided: among cores."""

    method: int
    code: bytes
    words: list[int]
    relocations: list[Relocation]
    arena_bytes: int
    symbols: tuple[int, ...] = ()
    divided: bool = False
    calls: tuple[int, ...] = ()  # of each: the address of its function, its core, and the method's instruction

    def program(self) -> Program:
        return Program.decode(self.code)


@dataclass
class CodeSection:
    """The code of a file: at most one record per method and values of its symbols. All methods share the constants, and
    the records of a method, which are neighbours, share its packets."""

    methods: list[MethodCode]
    constants: bytes

    def sections(self, first_integer: int) -> tuple[list[SectionData], bytes]:
        """The sections, and what goes to INTEGERS from its entry `first_integer` on."""
        content = {kind: bytearray() for kind in _KINDS}
        content[Section.CONSTANTS] += self.constants
        integers: list[int] = []
        number, packets = -1, (0, 0)
        for method in self.methods:
            if method.method != number:
                number = method.method
                packets = len(content[Section.PACKETS]) // _PACKET_BYTES, len(method.code) // _PACKET_BYTES
                content[Section.PACKETS] += method.code
            parts = {
                Section.CODE_WORDS: struct.pack(f"<{len(method.words)}I", *method.words),
                Section.RELOCATIONS: b"".join(FORMATS[Section.RELOCATIONS].pack(*item) for item in method.relocations),
            }
            ranges = [size // STRIDES[kind] for kind, part in parts.items() for size in (len(content[kind]), len(part))]
            symbols = (first_integer + len(integers), len(method.symbols)) if method.symbols else (0, 0)
            integers += method.symbols
            calls = (first_integer + len(integers), len(method.calls)) if method.calls else (0, 0)
            integers += method.calls
            version = DIVIDED_CODE_VERSION if method.divided else CODE_VERSION
            record = (method.method, version, *packets, *ranges, method.arena_bytes, *symbols, *calls)
            content[Section.CODE] += FORMATS[Section.CODE].pack(*record)
            for kind, part in parts.items():
                content[kind] += part
        sections = [SectionData(kind, data, stride=STRIDES[kind]) for kind, data in content.items()]
        return sections, struct.pack(f"<{len(integers)}q", *integers)


def find(data: bytes) -> CodeSection | None:
    """Return the code in a file's bytes, which the validator has seen; None if it has none."""
    container = Container.read(data)
    content = {kind: container.find(kind) or b"" for kind in _KINDS}
    words = struct.unpack(f"<{len(content[Section.CODE_WORDS]) // 4}I", content[Section.CODE_WORDS])
    relocations = [
        (word, Region(region), index, offset)
        for word, region, index, offset in FORMATS[Section.RELOCATIONS].iter_unpack(content[Section.RELOCATIONS])
    ]
    integers = memoryview(container.find(Section.INTEGERS) or b"").cast("q")
    methods, codes = [], dict[tuple[int, int], bytes]()
    for record in _records(container):
        method, version, packet, packets, word, n_words, relocation, n_relocations, *rest = record
        arena_bytes, symbol, n_symbols, call, n_calls = rest
        code = codes.setdefault(
            (packet, packets), content[Section.PACKETS][_PACKET_BYTES * packet : _PACKET_BYTES * (packet + packets)]
        )
        of_method = relocations[relocation : relocation + n_relocations]
        symbols = tuple(integers[symbol : symbol + n_symbols])
        table, divided = list(words[word : word + n_words]), version == DIVIDED_CODE_VERSION
        calls = tuple(integers[call : call + n_calls])
        methods.append(MethodCode(method, code, table, of_method, arena_bytes, symbols, divided, calls))
    return CodeSection(methods, content[Section.CONSTANTS]) if methods else None


def _records(container: Container) -> Iterator[tuple[int, ...]]:
    """Of CODE. Those of format 1.3 are shorter."""
    layout = FORMATS[Section.CODE]
    for section in container.sections:
        if section.kind == Section.CODE:
            for first in range(0, len(section.content), section.stride):
                record = bytes(section.content[first : first + section.stride])
                yield layout.unpack(record[: layout.size].ljust(layout.size, b"\0"))


def attach(data: bytes, section: CodeSection, crc32c: Checksum) -> bytes:
    """Return the file with the code. Readers that do not know its sections skip them; those of format 1.3 would misread
    code for several sizes, and refuse it by the file's least driver version."""
    container = Container.read(data)
    pool = next((present for present in container.sections if present.kind == Section.INTEGERS), None)
    sections, integers = section.sections(len(pool.content) // 8 if pool else 0)
    if integers and pool is None:
        pool = SectionData(Section.INTEGERS, b"", stride=STRIDES[Section.INTEGERS])
        sections.append(pool)
    if pool is not None:
        pool.content, pool.crc = bytes(pool.content) + integers, None
    if any(method.symbols for method in section.methods):
        container.min_runtime = _SIZED_RUNTIME
    kinds = [present.kind for present in container.sections]
    at = kinds.index(Section.WEIGHTS) if Section.WEIGHTS in kinds else len(kinds)
    container.sections[at:at] = sections
    container.isa_version = ISA_VERSION
    return container.pack(crc32c)
