# SPDX-License-Identifier: BSD-3-Clause
"""The generated ctypes binding against the C compiler, and what its generator refuses."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

from torch.testing._internal.common_utils import TestCase, run_tests

from tools.codegen import c_abi as generator
from torch_atalla.driver import c_abi

ROOT = Path(__file__).parents[2]


class TestBinding(TestCase):
    def test_sizes_offsets_and_constants_are_the_compilers(self):
        expected = {}
        for name, struct in vars(c_abi).items():
            if isinstance(struct, type) and issubclass(struct, ctypes.Structure) and struct is not ctypes.Structure:
                expected[f"sizeof({name})"] = ctypes.sizeof(struct)
                for field, *_ in struct._fields_:
                    expected[f"offsetof({name}, {field})"] = getattr(struct, field).offset
            elif name.startswith("ATALLA_"):
                expected[name] = struct
        includes = "".join(f'#include "{ROOT / header}"\n' for header in generator.HEADERS)
        asserts = "".join(f'_Static_assert({what} == {number}u, "{what}");\n' for what, number in expected.items())
        found = subprocess.run(
            ["cc", "-std=c11", "-fsyntax-only", "-x", "c", "-"],
            input=includes + asserts,
            text=True,
            capture_output=True,
        )
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        self.assertGreater(len(expected), 200)

    def test_unknown_declarations_are_refused_with_their_place(self):
        for text, message in {
            "\nunion a { int b; };\n": "h:2: expected a declaration",
            "typedef struct a {\n  long b;\n} a;\n": "h:1: unknown type 'long'",
            "enum { A };\n": "h:1: expected NAME = number",
            "#define A (1 << 3)\n": "h:1: expected a declaration",
        }.items():
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                with self.assertRaisesRegex(generator.CHeaderError, message):
                    generator.Binding().read(Path(file.name), "h")


if __name__ == "__main__":
    run_tests()
