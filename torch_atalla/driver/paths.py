# SPDX-License-Identifier: BSD-3-Clause
"""Where the build puts libraries, programs, headers and generated tables into the package."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
LIBRARIES = PACKAGE / "lib"
BINARIES = PACKAGE / "bin"
GENERATED = PACKAGE / "_generated"
