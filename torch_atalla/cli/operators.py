# SPDX-License-Identifier: BSD-3-Clause
"""Options of commands for operators that PyTorch does not define: --import and --operators."""

from __future__ import annotations

import argparse
import importlib


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add --import, which imports a module while the arguments are parsed."""
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="MODULE",
        type=_imported,
        action="append",
        default=[],
        help="Python module to import first, such as one that defines custom operators; may be repeated",
    )


def add_operators(parser: argparse.ArgumentParser) -> None:
    """Add --operators, which gives load_loadable's `operators`, and --import."""
    parser.add_argument(
        "--operators",
        metavar="PATTERN",
        action="append",
        default=[],
        help="operators that host calls may run beside the pure ones, such as 'mylib::*'; may be repeated",
    )
    add_import(parser)


def _imported(module: str) -> str:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise argparse.ArgumentTypeError(f"{module} cannot be imported: {error}") from None
    return module
