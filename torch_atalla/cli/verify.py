# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla verify model.atl [--engine isa] [--key HEX]`: check golden outputs and signature."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from torch_atalla.cli.operators import add_operators
from torch_atalla.driver import runtime
from torch_atalla.loadable.errors import ExportError, LoadableError
from torch_atalla.loadable.file.signature import is_signed, verify_signature
from torch_atalla.loadable.host_call import HostCalls


def main(argv: list[str]) -> int:
    """Print the results of the checks.

    Returns 1, with the reasons on stderr, if the file is damaged, if its outputs differ from the golden ones, or if
    the key did not sign it.
    """
    parser = argparse.ArgumentParser(
        prog="python -m torch_atalla verify", description="Replay a loadable's golden outputs; check its signature."
    )
    parser.add_argument("path", help="a file written by save_loadable")
    parser.add_argument("--device", type=int, default=0, help="ordinal of the device (default: %(default)s)")
    parser.add_argument(
        "--engine",
        choices=tuple(runtime.ENGINES),
        default="functional",
        help="engine that replays them (default: %(default)s)",
    )
    parser.add_argument("--key", help="Ed25519 public key that must have signed the file, 64 hexadecimal digits")
    add_operators(parser)
    args = parser.parse_args(argv)
    try:
        key = bytes.fromhex(args.key) if args.key is not None else None
        for line in verify(args.path, args.device, key, args.engine, args.operators):
            print(line)
    except (OSError, ValueError, ExportError, LoadableError, runtime.RuntimeLibraryError) as error:
        print(f"{args.path}: {error}", file=sys.stderr)
        return 1
    return 0


def verify(
    path: str, device: int = 0, key: bytes | None = None, engine: str = "functional", operators: Sequence[str] = ()
) -> list[str]:
    """Return the results of the checks, one per line. Raises an error for the first check that fails."""
    data = Path(path).read_bytes()
    with closing(runtime.Program(data)) as program:
        lines = ["every byte is covered by a checksum that fits"]
        if key is not None or is_signed(data):
            lines.append(f"signed by {verify_signature(data, key).hex()}")
        HostCalls.attach(program, device, operators)
        program.load(device, engine)
        count = program.verify()
        lines.append(f"{count} golden output{'s' if count != 1 else ''} as expected")
        return lines
