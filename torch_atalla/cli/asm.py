# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla asm`: assemble text into a program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torch_atalla.isa.assembler import assemble
from torch_atalla.isa.errors import AssemblyError
from torch_atalla.isa.instruction import EncodingError
from torch_atalla.isa.text_image import to_text_image


def read(path: str) -> str:
    return sys.stdin.read() if path == "-" else Path(path).read_text()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla asm", description="Assemble text into a program.")
    parser.add_argument("source", help="assembly file, or - for standard input")
    parser.add_argument(
        "-o", "--output", help="file to write: code bytes if it ends in `.bin`, otherwise a text image (default: print)"
    )
    parser.add_argument("--no-check", action="store_true", help="accept packets that the hardware cannot issue")
    args = parser.parse_args(argv)
    try:
        program = assemble(read(args.source), args.source, check=not args.no_check)
        if args.output is None:
            print(to_text_image(program), end="")
        elif args.output.endswith(".bin"):
            if program.data:
                raise ValueError(f"{args.output}: code bytes hold no .data; write a .in text image")
            Path(args.output).write_bytes(program.encode().tobytes())
        else:
            Path(args.output).write_text(to_text_image(program))
    except (AssemblyError, EncodingError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
