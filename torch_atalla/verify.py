# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla verify model.atl [--key HEX]`: whether a file still gives what it was saved with."""

from __future__ import annotations

import sys
from pathlib import Path

from . import _runtime
from .export.errors import ExportError
from .export.signature import is_signed, verify_signature
from .loadable import run_host_call


def main(path: str, device: int = 0, key: str | None = None) -> int:
    """Prints what was found. Exit code 1, with the reasons on stderr, for a file that is damaged, gives something else,
    or is not signed by the key."""
    try:
        for line in verify(path, device, bytes.fromhex(key) if key is not None else None):
            print(line)
    except (OSError, ValueError, ExportError, _runtime.RuntimeLibraryError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    return 0


def verify(path: str, device: int = 0, key: bytes | None = None) -> list[str]:
    """What was found, one a line. Raises for anything that is not as it should be."""
    data = Path(path).read_bytes()
    program = _runtime.Program(data)
    try:
        lines = ["every byte is covered by a checksum that fits"]
        if key is not None or is_signed(data):
            lines.append(f"signed by {verify_signature(data, key).hex()}")
        program.load(device)
        program.set_host_call(lambda text, inputs, outputs: run_host_call(device, text, inputs, outputs))
        count = program.verify()
        lines.append(f"{count} golden output{'s' if count != 1 else ''} as expected")
        return lines
    finally:
        program.close()
