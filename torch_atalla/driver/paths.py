# SPDX-License-Identifier: BSD-3-Clause
"""Where the build puts libraries, headers and generated tables into the package."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
LIBRARIES = PACKAGE / "lib"
GENERATED = PACKAGE / "_generated"
