# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla config`: the flags with which C and C++ programs build against the driver."""

from __future__ import annotations

import argparse
from pathlib import Path

PACKAGE = Path(__file__).parent


def paths() -> dict[str, Path]:
    return {
        "include_dir": PACKAGE / "include",
        "lib_dir": PACKAGE / "lib",
        "cmake_dir": PACKAGE / "share" / "cmake" / "atalla",
        "pkg_config": PACKAGE / "share" / "pkgconfig",
    }


def main(args: argparse.Namespace) -> int:
    """Prints the one that was asked for, or all."""
    found = paths()
    wanted = [name for name in found if getattr(args, name)]
    for name in wanted or found:
        print(found[name] if wanted else f"{name.replace('_', '-'):<12}{found[name]}")
    return 0
