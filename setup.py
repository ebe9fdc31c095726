# SPDX-License-Identifier: BSD-3-Clause
"""Builds the chip library, the driver library and the PyTorch extension with ninja (tools/build.py).

The extension is built for the torch of the environment. A package requires the minor versions of torch for which it has
the extension: that one, and those that were built in the same checkout before (torch_atalla/lib/torch-*).
"""

import importlib.metadata
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

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


def torch_requirement() -> str:
    versions = runpy.run_path("torch_atalla/driver/torch_versions.py")
    used = versions["minor"](importlib.metadata.version("torch"))
    if used not in versions["TESTED"]:
        sys.exit(f"setup.py: torch {used} is installed; expected one of the tested versions: {versions['TESTED']}")
    built = [path.parent.name.removeprefix("torch-") for path in Path("torch_atalla/lib").glob("torch-*/_C.*.so")]
    return versions["requirement"]([used, *built])


setup(
    install_requires=[torch_requirement(), "numpy", "tqdm"],
    ext_modules=[Extension("torch_atalla._C", sources=[])],
    cmdclass={"build_ext": NinjaBuild, "build_py": BuildFirst},
)
