# SPDX-License-Identifier: BSD-3-Clause
"""Command line: `python -m torch_atalla <command>`."""

from __future__ import annotations

import argparse
import os
import sys


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla", description="The Atalla device for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="devices, chip parameters, memory, versions, build flags")
    info.add_argument("--json", action="store_true")
    ops = commands.add_parser("ops", help="native ops, from the op list")
    ops.add_argument("--json", action="store_true")
    commands.add_parser("compile", help="make a loadable of programs saved by torch.export.save", add_help=False)
    commands.add_parser("inspect", help="print a loadable", add_help=False)
    commands.add_parser("asm", help="assemble Atalla code", add_help=False)
    commands.add_parser("disasm", help="disassemble Atalla code", add_help=False)
    verify = commands.add_parser("verify", help="replay a loadable's golden outputs; check its signature")
    verify.add_argument("path", help="a file written by save_loadable")
    verify.add_argument("--device", type=int, default=0)
    verify.add_argument("--key", help="the Ed25519 public key that must have signed the file, 64 hexadecimal digits")
    config = commands.add_parser("config", help="where C and C++ programs find headers and libraries")
    for what in ("include-dir", "lib-dir", "cmake-dir", "pkg-config"):
        config.add_argument(f"--{what}", action="store_true")
    commands.add_parser("trace", help="run a script and write a trace of its device work", add_help=False)
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["trace"]:  # whose options are the script's, too
        from .trace import main as trace

        return trace(arguments[1:])
    if arguments[:1] == ["compile"]:
        from .compile_command import main as compile_programs

        return compile_programs(arguments[1:])
    if arguments[:1] in (["asm"], ["disasm"]):
        from .isa.command import asm_main, disasm_main

        return (asm_main if arguments[0] == "asm" else disasm_main)(arguments[1:])
    args, rest = parser.parse_known_args(argv)
    if args.command == "inspect":
        from .inspect import main as inspect

        return inspect(rest) or 0
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command == "verify":
        from .verify import main as verify_file

        return verify_file(args.path, args.device, args.key)
    if args.command == "config":
        from .config import main as print_config

        return print_config(args)
    if args.command == "info":
        from .info import main as print_info

        print_info(as_json=args.json)
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
