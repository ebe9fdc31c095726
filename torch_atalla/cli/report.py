# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla report model.atl -o report.html`: run a loadable once and write its report."""

from __future__ import annotations

import argparse
import sys

import torch

from torch_atalla.cli.operators import add_operators
from torch_atalla.loadable.errors import LoadableError
from torch_atalla.loadable.load import load_loadable
from torch_atalla.reports.report import report


def main(argv: list[str]) -> int:
    """Write the page. Return 1, with the reasons on stderr, if the file cannot be run."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_atalla report", description="Run a loadable once and write its report as one HTML page."
    )
    parser.add_argument("path", help="a file written by save_loadable")
    parser.add_argument("-o", "--output", default="report.html", help="page to write (default: %(default)s)")
    parser.add_argument("--method", metavar="NAME", help="default: the first method")
    parser.add_argument("--inputs", metavar="FILE", help="list of arguments written by torch.save (default: random)")
    add_operators(parser)
    args = parser.parse_args(argv)
    try:
        inputs = None if args.inputs is None else torch.load(args.inputs)
        report(load_loadable(args.path, operators=args.operators), args.output, inputs=inputs, method=args.method)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, LoadableError) as error:
        text = str(error)
        print(text if args.path in text else f"{args.path}: {text}", file=sys.stderr)
        return 1
    print(args.output, file=sys.stderr)
    return 0
