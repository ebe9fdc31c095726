# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla config`: paths for building C and C++ programs against the driver."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_atalla.driver.paths import LIBRARIES, PACKAGE


def paths() -> dict[str, Path]:
    return {
        "include_dir": PACKAGE / "include",
        "lib_dir": LIBRARIES,
        "cmake_dir": PACKAGE / "share" / "cmake" / "atalla",
        "pkg_config": PACKAGE / "share" / "pkgconfig",
    }


def main(argv: list[str]) -> int:
    """Print the requested paths, or all of them with their names."""
    found = paths()
    parser = argparse.ArgumentParser(
        prog="python -m torch_atalla config", description="Print where C and C++ programs find headers and libraries."
    )
    for name in found:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help="print this path only")
    args = parser.parse_args(argv)
    wanted = [name for name in found if getattr(args, name)]
    for name in wanted or found:
        print(found[name] if wanted else f"{name.replace('_', '-'):<12}{found[name]}")
    return 0
