# SPDX-License-Identifier: BSD-3-Clause
"""Programs for other simulators: each exported text, run from its file, against the run of the same network here."""

from pathlib import Path
from tempfile import TemporaryDirectory

from torch.testing._internal.common_utils import TestCase

from tools import isa_exports
from torch_atalla import isa


class TestExports(TestCase):
    def test_text_images(self):
        with TemporaryDirectory() as name:
            directory = Path(name)
            readme = isa_exports.write(directory)
            for name in isa_exports.EXPORTS:
                export = isa_exports.make(name)
                program = isa.read_text_image(directory / f"{name}.in")
                self.assertEqual(program.labels, {}, msg=name)
                result = isa.run(program)
                found = result.memory(export.address, export.result.nbytes).tobytes()
                self.assertTrue(any(found), msg=name)
                self.assertEqual(found, (directory / f"{name}.out").read_bytes(), msg=name)
                self.assertEqual(result.stats.services, 0, msg=name)
                self.assertIn(f"| {name}.in | {list(export.result.sizes)} |", readme)
