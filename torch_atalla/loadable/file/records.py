# SPDX-License-Identifier: BSD-3-Clause
"""The records of docs/reference/loadable-format.md as bytes: pools, sections, header."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from enum import IntEnum

MAGIC = b"\x89ATL\r\n\x1a\n"
MAJOR, MINOR = 1, 2
MIN_RUNTIME = 1 << 16
NONE = 0xFFFFFFFF
ALIGNMENT = 64
WEIGHTS_ALIGNMENT = 4096

Ref = tuple[int, int]  # a string (offset, bytes) or a range (first, count)


class Section(IntEnum):
    STRINGS = 1
    INTEGERS = 2
    DOUBLES = 3
    KERNELS = 4
    STORAGES = 5
    VALUES = 6
    OPERANDS = 7
    INSTRUCTIONS = 8
    HOST_CALLS = 9
    INPUTS = 10
    OUTPUTS = 11
    NODES = 12
    SEGMENTS = 13
    METHODS = 14
    METADATA = 15
    WEIGHTS = 16
    STATES = 17
    SYMBOLS = 18
    EXPRESSIONS = 19
    DYNAMIC = 20
    GUARDS = 21
    GOLDENS = 22
    SIGNATURE = 23
    RESIDENCY = 24


# One struct format a record, in the order of the fields of the specification ("x": reserved bytes).
FORMATS = {
    Section.KERNELS: struct.Struct("<2II4x"),
    Section.STORAGES: struct.Struct("<B7xQQII2I"),
    Section.VALUES: struct.Struct("<2IIBBBxQII2II4x"),
    Section.OPERANDS: struct.Struct("<BBBxIQII16sI4x"),
    Section.INSTRUCTIONS: struct.Struct("<BBBBI2I2I2III"),
    Section.HOST_CALLS: struct.Struct("<2I2I2I2I"),
    Section.INPUTS: struct.Struct("<2IIII4x"),
    Section.OUTPUTS: struct.Struct("<2IIII4x"),
    Section.NODES: struct.Struct("<2I2I2I2I2IQIIB7x"),
    Section.SEGMENTS: struct.Struct("<2I2I2IB7x"),
    Section.METHODS: struct.Struct("<2I2I2I2I2I2IQQ"),
    Section.METADATA: struct.Struct("<2I2I"),
    Section.STATES: struct.Struct("<2IIIQ"),
    Section.SYMBOLS: struct.Struct("<2IIII4xqqqqq"),
    Section.EXPRESSIONS: struct.Struct("<B3xII4xq"),
    Section.DYNAMIC: struct.Struct("<IIII"),
    Section.GUARDS: struct.Struct("<2III"),
    Section.GOLDENS: struct.Struct("<I4xQ2I2I2Idd"),
    Section.RESIDENCY: struct.Struct("<IIQ"),
}
STRIDES = {section: record.size for section, record in FORMATS.items()} | {
    Section.STRINGS: 1,
    Section.INTEGERS: 8,
    Section.DOUBLES: 8,
    Section.WEIGHTS: 1,
    Section.SIGNATURE: 1,
}
# A driver that does not know them must refuse the file.
MUST_UNDERSTAND = {Section.STATES, Section.SYMBOLS, Section.EXPRESSIONS, Section.DYNAMIC, Section.GUARDS}
_HEADER = struct.Struct("<8sHHIIIQQIIII68x")
_ENTRY = struct.Struct("<IIQQII")


class Tables:
    """Records and pools under construction. Equal strings and equal runs of numbers are stored once."""

    def __init__(self) -> None:
        self.data: dict[Section, bytearray] = {section: bytearray() for section in Section}
        self._strings: dict[str, Ref] = {"": (0, 0)}
        self._numbers: dict[tuple[Section, tuple], Ref] = {}

    def string(self, text: str) -> Ref:
        if text not in self._strings:
            encoded = text.replace("\0", "\\0").encode()
            pool = self.data[Section.STRINGS]
            self._strings[text] = (len(pool), len(encoded))
            pool += encoded + b"\0"
        return self._strings[text]

    def integers(self, numbers: Iterable[int]) -> Ref:
        return self._run(Section.INTEGERS, "q", tuple(numbers))

    def own_integers(self, numbers: tuple[int, ...]) -> Ref:
        """A run that nothing else shares."""
        pool = self.data[Section.INTEGERS]
        ref = (len(pool) // 8, len(numbers))
        pool += struct.pack(f"<{len(numbers)}q", *numbers)
        return ref

    def doubles(self, numbers: Iterable[float]) -> Ref:
        return self._run(Section.DOUBLES, "d", tuple(numbers))

    def _run(self, section: Section, code: str, numbers: tuple) -> Ref:
        if not numbers:
            return (0, 0)
        packed = struct.pack(f"<{len(numbers)}{code}", *numbers)
        key = (section, (packed,))  # by bytes: 0.0 and -0.0 differ, NaN equals itself
        if key not in self._numbers:
            pool = self.data[section]
            self._numbers[key] = (len(pool) // 8, len(numbers))
            pool += packed
        return self._numbers[key]

    def add(self, section: Section, *fields: int | float | bytes) -> int:
        """Appends a record and gives its index."""
        table = self.data[section]
        table += FORMATS[section].pack(*fields)
        return len(table) // STRIDES[section] - 1

    def count(self, section: Section) -> int:
        return len(self.data[section]) // STRIDES[section]


def write_file(tables: Tables, crc32c: Callable[[bytes | bytearray], int]) -> bytes:
    """Header, section table and sections. Empty sections are left out, but for the required ones."""
    required = (Section.STRINGS, Section.METHODS)
    # Weights last, so that a file begins with what a reader needs first.
    kinds: list[Section] = [kind for kind in Section if tables.data[kind] or kind in required]
    kinds.sort(key=lambda kind: kind is Section.WEIGHTS)
    table = bytearray()
    begin = offset = 128 + _ENTRY.size * len(kinds)
    parts: list[bytes | bytearray] = []  # joined at the end: weights are copied once
    for kind in kinds:
        data = tables.data[kind]
        place = _align(offset, WEIGHTS_ALIGNMENT if kind is Section.WEIGHTS else ALIGNMENT)
        table += _ENTRY.pack(kind, int(kind in MUST_UNDERSTAND), place, len(data), STRIDES[kind], crc32c(data))
        parts += [bytes(place - offset), data]
        offset = place + len(data)
    file_bytes = _align(offset, ALIGNMENT)
    header = _HEADER.pack(
        MAGIC, MAJOR, MINOR, 128, MIN_RUNTIME, 0, file_bytes, 128, len(kinds), _ENTRY.size, crc32c(table), 0
    )
    header += struct.pack("<I", crc32c(header))
    assert len(header) + len(table) == begin
    return b"".join([header, table, *parts, bytes(file_bytes - offset)])


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
