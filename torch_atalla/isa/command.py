# SPDX-License-Identifier: BSD-3-Clause
"""Command line: `python -m torch_atalla asm` and `disasm`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .assembler import assemble
from .checker import check
from .disassembler import disassemble
from .errors import AssemblyError
from .instruction import EncodingError
from .program import Program
from .text_image import from_text_image, to_text_image


def _read(path: str) -> str:
    return sys.stdin.read() if path == "-" else Path(path).read_text()


def asm_main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla asm", description="Assembly text to a program.")
    parser.add_argument("source", help="assembly file; - for standard input")
    parser.add_argument("-o", "--output", help="`.bin` for code bytes, else a `.in` text image (default: printed)")
    parser.add_argument("--no-check", action="store_true", help="let packets pass that the hardware cannot issue")
    args = parser.parse_args(argv)
    try:
        program = assemble(_read(args.source), args.source, check=not args.no_check)
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


def disasm_main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla disasm", description="A program to assembly text.")
    parser.add_argument("source", help="a `.in` text image, or code bytes (`.bin`); - for a text image on stdin")
    parser.add_argument("--addresses", action="store_true", help="put each packet's address into a comment")
    parser.add_argument("--check", action="store_true", help="report packets that the hardware cannot issue; exit 1")
    args = parser.parse_args(argv)
    try:
        if args.source.endswith(".bin"):
            program = Program.decode(Path(args.source).read_bytes())
        else:
            program = from_text_image(_read(args.source), args.source)
        print(disassemble(program, args.addresses), end="")
    except (AssemblyError, EncodingError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    problems = check(program) if args.check else []
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0
