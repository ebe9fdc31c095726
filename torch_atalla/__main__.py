# SPDX-License-Identifier: BSD-3-Clause
"""Command line: `python -m torch_atalla <command>`."""

from __future__ import annotations

import argparse
import os
import sys


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla", description="The Atalla device for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="devices, chip parameters, versions")
    ops = commands.add_parser("ops", help="native ops, from the op list")
    ops.add_argument("--json", action="store_true")
    commands.add_parser("inspect", help="print a loadable", add_help=False)
    args, rest = parser.parse_known_args(argv)
    if args.command == "inspect":
        from .inspect import main as inspect

        return inspect(rest) or 0
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command == "info":
        from .info import main as info

        info()
    elif args.command == "ops":
        from .ops import main as list_ops

        list_ops(as_json=args.json)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
