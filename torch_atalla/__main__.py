# SPDX-License-Identifier: BSD-3-Clause
"""Command line `python -m torch_atalla <command>`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

# Command (a module of `cli`) -> help text.
COMMANDS = {
    "demo": "train, compile, export and run a small model; write a report",
    "doctor": "check the installation; tell how to fix what is wrong",
    "info": "print devices, chip parameters, memory, versions and build flags",
    "ops": "list the native ops",
    "compile": "compile programs saved by torch.export.save into a loadable",
    "inspect": "print a loadable",
    "asm": "assemble Atalla code",
    "disasm": "disassemble Atalla code",
    "run": "run a loadable; profile and trace its Atalla code",
    "explore": "run networks on variants of the chip; write a page",
    "report": "run a loadable and write its report as one HTML page",
    "verify": "replay a loadable's golden outputs; check its signature",
    "config": "print where C and C++ programs find headers and libraries",
    "cache": "show the programs stored by torch.compile; --clear removes them",
    "trace": "run a script and write a trace of its device work",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code. Invalid arguments exit with code 2."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in COMMANDS:
        return importlib.import_module(f"torch_atalla.cli.{arguments[0]}").main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m torch_atalla", description="The Atalla device for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    parser.parse_args(arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader (head, less) closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
