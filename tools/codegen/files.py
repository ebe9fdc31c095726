# SPDX-License-Identifier: BSD-3-Clause
"""Writing generated files."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, text: str) -> None:
    """Only if it changed, so that ninja rebuilds nothing in vain."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
