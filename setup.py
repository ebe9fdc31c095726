# SPDX-License-Identifier: BSD-3-Clause
"""Builds the chip library, the driver library and the PyTorch extension with ninja (tools/build.py)."""

import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class NinjaBuild(build_ext):
    def run(self):
        subprocess.run([sys.executable, "tools/build.py", "sim", "runtime", "ext"], check=True)


setup(ext_modules=[Extension("torch_atalla._C", sources=[])], cmdclass={"build_ext": NinjaBuild})
