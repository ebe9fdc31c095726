# SPDX-License-Identifier: BSD-3-Clause
"""The records of docs/reference/loadable-format.md as bytes: pools and tables."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from torch_atalla.loadable.file.container import Checksum, Container, SectionData
from torch_atalla.loadable.file.format import FORMATS, STRIDES, Section

Ref = tuple[int, int]  # a string (offset, bytes) or a range (first, count)


# A driver that does not know them must refuse the file.
MUST_UNDERSTAND = {Section.STATES, Section.SYMBOLS, Section.EXPRESSIONS, Section.DYNAMIC, Section.GUARDS}


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


def write_file(tables: Tables, crc32c: Checksum) -> bytes:
    """The file's bytes. Empty sections are left out, but for the required ones."""
    required = (Section.STRINGS, Section.METHODS)
    # Weights last, so that a file begins with what a reader needs first.
    kinds: list[Section] = [kind for kind in Section if tables.data[kind] or kind in required]
    kinds.sort(key=lambda kind: kind is Section.WEIGHTS)
    sections = [SectionData(kind, tables.data[kind], int(kind in MUST_UNDERSTAND), STRIDES[kind]) for kind in kinds]
    return Container(sections).pack(crc32c)
