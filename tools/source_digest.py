# SPDX-License-Identifier: BSD-3-Clause
"""The digest of everything that determines the compiled files: tells a stale build from a fresh one."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".toml", ".yaml", ".py"}


def digest(root: Path = ROOT) -> str:
    """Return the SHA-256 (hex) over names and contents of csrc, tools/codegen and tools/build.py below `root`."""
    found = hashlib.sha256()
    files = [path for folder in ("csrc", "tools/codegen") for path in (root / folder).rglob("*")]
    for path in sorted([*files, root / "tools/build.py"]):
        if path.suffix in SUFFIXES and path.is_file():
            data = path.read_bytes()
            found.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return found.hexdigest()
