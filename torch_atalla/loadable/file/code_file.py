# SPDX-License-Identifier: BSD-3-Clause
"""Files that hold only Atalla code: one method without instructions."""

from __future__ import annotations

from collections.abc import Sequence

from .code_section import CodeSection, attach
from .container import Checksum
from .format import NONE, Section, Space, ValueKind
from .records import Tables, write_file

PortType = tuple[int, int, Sequence[int], Sequence[int]]  # dtype code, bytes of an element, sizes, strides


def code_file(inputs: Sequence[PortType], outputs: Sequence[PortType], code: CodeSection, crc32c: Checksum) -> bytes:
    """Return a file whose method 0 has these inputs and outputs, and the code."""
    tables = Tables()
    for section, space, ports in ((Section.INPUTS, Space.INPUT, inputs), (Section.OUTPUTS, Space.OUTPUT, outputs)):
        for number, (dtype, itemsize, sizes, strides) in enumerate(ports):
            last = sum((size - 1) * stride for size, stride in zip(sizes, strides))
            nbytes = 0 if 0 in sizes else (last + 1) * itemsize
            name = tables.string(str(number))
            storage = tables.add(Section.STORAGES, space, nbytes, 0, 0, 0, *name)
            pools = tables.integers(sizes)[0], tables.integers(strides)[0]
            kind = ValueKind[space.name]
            value = tables.add(Section.VALUES, *name, storage, dtype, kind, len(sizes), 0, *pools, 0, 0, NONE)
            tables.add(section, *name, value, NONE, 0)
    ranges = (0, len(inputs), 0, len(outputs), 0, 0, 0, 0, 0, 0)
    tables.add(Section.METHODS, *tables.string("forward"), *ranges, 0, 0)
    return attach(write_file(tables, crc32c), code, crc32c)
