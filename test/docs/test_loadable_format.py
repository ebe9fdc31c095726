# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/reference/loadable-format.md against csrc/runtime/loadable/file/format.h."""

import re
import struct
from pathlib import Path

from torch.testing._internal.common_utils import TestCase, run_tests

from tools.codegen import loadable_records
from torch_atalla.loadable.file.format import STRIDES, Section

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/loadable-format.md").read_text()
RECORDS = loadable_records.fields((ROOT / loadable_records.HEADER).read_text())
TYPES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q", "f64": "d", "string": "2I", "range": "2I"}


def code(kind: str, name: str) -> str:
    """What loadable_records gives for a field of the page's type."""
    array = re.fullmatch(r"u8\[(\d+)\]", kind)
    found = f"{array[1]}s" if array else TYPES[kind]
    return {"B": "x", "I": "4x"}.get(found, found.replace("s", "x")) if name == "reserved" else found


class TestPage(TestCase):
    def compare(self, title: str, record: str):
        heading = re.search(
            rf"^### (?:\w+ and )?{title}(?: and \w+)? \((\d+)(?: bytes)?\)\n(.*?)(?=^##)", PAGE, re.M | re.S
        )
        rows = re.findall(r"^\| (\d+) \| (\S+) \| (\w+) \|", heading[2], re.M)
        offset, expected = 0, []
        for name, layout in RECORDS[record]:
            expected.append((offset, layout, name.rstrip("01") if name.startswith("reserved") else name))
            offset += struct.calcsize("<" + layout)
        self.assertEqual(int(heading[1]), offset)
        if rows:
            self.assertEqual([(int(place), code(kind, name), name) for place, kind, name in rows], expected)
        return bool(rows)

    def test_records(self):
        text = (ROOT / loadable_records.HEADER).read_text()
        records = re.findall(r"^  TABLE\(\d+, \w+, (\w+), ([A-Z]\w+)", text, re.M)
        compared = [self.compare(name, record) for name, record in records]
        self.assertEqual(compared.count(False), 2)  # METADATA and GUARDS are described in words
        self.assertTrue(self.compare("Header", "Header"))
        self.assertTrue(self.compare("Section table entry", "Section"))

    def test_section_kinds(self):
        rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \| (\d+) \|", PAGE, re.M)
        self.assertEqual(
            [(int(kind), name, int(stride)) for kind, name, stride in rows],
            [(section.value, section.name, STRIDES[section]) for section in Section],
        )


if __name__ == "__main__":
    run_tests()
