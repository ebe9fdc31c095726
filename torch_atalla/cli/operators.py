# SPDX-License-Identifier: BSD-3-Clause
"""The option --operators of the commands that run a loadable."""

from __future__ import annotations

import argparse


def add_operators(parser: argparse.ArgumentParser) -> None:
    """Add --operators, which gives load_loadable's `operators`."""
    parser.add_argument(
        "--operators",
        metavar="PATTERN",
        action="append",
        default=[],
        help="operators that host calls may run beside the pure ones, such as 'mylib::*'; may be repeated",
    )
