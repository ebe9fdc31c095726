# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla disasm`: disassemble a program into assembly text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torch_atalla.isa.checker import check
from torch_atalla.isa.disassembler import disassemble
from torch_atalla.isa.errors import AssemblyError
from torch_atalla.isa.instruction import EncodingError
from torch_atalla.isa.program import Program
from torch_atalla.isa.text_image import from_text_image

from .asm import read


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla disasm", description="Disassemble a program.")
    parser.add_argument("source", help="`.in` text image or `.bin` code bytes; - for an image on stdin")
    parser.add_argument("--addresses", action="store_true", help="add a comment with the address of each packet")
    parser.add_argument("--check", action="store_true", help="report packets that the hardware cannot issue; exit 1")
    args = parser.parse_args(argv)
    try:
        if args.source.endswith(".bin"):
            program = Program.decode(Path(args.source).read_bytes())
        else:
            program = from_text_image(read(args.source), args.source)
        print(disassemble(program, args.addresses), end="")
    except (AssemblyError, EncodingError, ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    problems = check(program) if args.check else []
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0
