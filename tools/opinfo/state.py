# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a sweep on disk, appended as they come: a sweep that was interrupted goes on where it stood."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from torch_atalla.driver.installation import extension_folder

from .worker import Row

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "build/opinfo"


def fingerprint() -> str:
    """Of the built libraries and of the checks: rows of another build are no answer about this one."""
    digest = hashlib.sha256()
    package = ROOT / "torch_atalla"
    checks = [*sorted((package / "testing").glob("*.py")), *sorted((ROOT / "tools/opinfo").glob("[sw][eo]*.py"))]
    for path in [*extension_folder().glob("_C*.so"), *sorted((package / "lib").glob("*.so")), *checks]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class State:
    """One file a mode and shard; its first line is the fingerprint."""

    def __init__(self, mode: str, shard: tuple[int, int], directory: Path = DIRECTORY):
        self.mode, self.directory = mode, directory
        self.path = directory / f"{mode}-{shard[0]}-of-{shard[1]}.jsonl"
        self.fingerprint = fingerprint()

    def rows(self) -> dict[str, Row]:
        """The latest row of each case in all shards' files of this build."""
        found: dict[str, Row] = {}
        for path in sorted(self.directory.glob(f"{self.mode}-*.jsonl")):
            head, *lines = path.read_text().splitlines() or [""]
            if head == self.fingerprint:
                for line in lines:
                    try:
                        row = Row(**json.loads(line))
                    except json.JSONDecodeError:  # cut off by whatever ended the sweep
                        continue
                    found[row.case.key] = row
        return found

    def start(self, fresh: bool) -> None:
        """Keeps the file of this build, unless a fresh start is wanted."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not fresh and self.path.exists() and self.path.read_text().partition("\n")[0] == self.fingerprint:
            return
        self.path.write_text(self.fingerprint + "\n")

    def append(self, rows: Iterable[Row]) -> None:
        with self.path.open("a") as file:
            file.write("".join(json.dumps(asdict(row)) + "\n" for row in rows))
