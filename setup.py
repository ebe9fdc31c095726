# SPDX-License-Identifier: BSD-3-Clause
"""Builds the chip library, the driver library and the PyTorch extension with ninja (tools/build.py)."""

import subprocess
import sys
from functools import cache

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py


@cache
def build() -> None:
    subprocess.run([sys.executable, "tools/build.py", "sim", "runtime", "ext"], check=True)


class NinjaBuild(build_ext):
    def run(self):
        build()


class BuildFirst(build_py):
    """Collects the package's files after the build: libraries, headers and generated modules are among them."""

    def run(self):
        build()
        super().run()


setup(
    ext_modules=[Extension("torch_atalla._C", sources=[])],
    cmdclass={"build_ext": NinjaBuild, "build_py": BuildFirst},
)
