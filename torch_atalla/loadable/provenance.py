# SPDX-License-Identifier: BSD-3-Clause
"""Files that this process wrote: their host calls run the operators of the caller's own model.

A file is known by the SHA-256 digest of its bytes, so a file that was changed since is one from elsewhere. Only files
with operators that a load refuses are remembered; without such a file, a load computes no digest.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_written: set[bytes] = set()


def remember(data: bytes) -> None:
    """Remember the bytes of a file that this process writes."""
    _written.add(hashlib.sha256(data).digest())


def is_own(path: str | os.PathLike[str]) -> bool:
    """Return whether the bytes of the file are those of a file that this process wrote."""
    if not _written:
        return False
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest() in _written
