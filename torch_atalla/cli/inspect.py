# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla inspect model.atl [--asm | --json | --netron FILE]`: print the content of a loadable."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from torch_atalla.driver import runtime
from torch_atalla.loadable.description import describe, render
from torch_atalla.loadable.errors import LoadableError


def main(argv: list[str] | None = None) -> int:
    """Print a loadable. Return 1, with the reasons on stderr, if the file is not a loadable."""
    parser = argparse.ArgumentParser(prog="python -m torch_atalla inspect", description="Print a loadable.")
    parser.add_argument("path", help="a file written by save_loadable")
    parser.add_argument("--asm", action="store_true", help="print the Atalla code as assembly")
    parser.add_argument("--json", action="store_true", help="print all records as JSON")
    parser.add_argument("--netron", metavar="FILE", help="write the graphs as JSON for the viewer Netron")
    args = parser.parse_args(argv)
    try:
        data = describe(args.path)
        if args.netron:
            from torch_atalla.reports.netron import netron  # imported lazily: needs torch

            text = json.dumps(netron(data))
        elif args.asm:
            from torch_atalla.loadable.code import listing  # imported lazily: needs torch

            text = listing(args.path)
        else:
            text = json.dumps(data, indent=2) if args.json else render(data)
    except (OSError, ValueError, LoadableError, runtime.RuntimeLibraryError) as error:
        print(f"{args.path}: {error}", file=sys.stderr)
        return 1
    if args.netron:
        Path(args.netron).write_text(text)
    else:
        print(text)
    return 0
