# SPDX-License-Identifier: BSD-3-Clause
"""test/data/opinfo_native.json: which dtypes of which OpInfos are native. It may grow and must not shrink."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Native:
    """Dtypes for which every sample of an OpInfo runs without the fallback and gives the CPU's values."""

    forward: tuple[str, ...] = ()
    backward: tuple[str, ...] = ()

    def dtypes(self, direction: str = "forward") -> set[torch.dtype]:
        """Return the native dtypes of a direction, "forward" or "backward"."""
        return {getattr(torch, name) for name in getattr(self, direction)}


@dataclass(frozen=True)
class Record:
    """The native ops of upstream's op database by name."""

    ops: dict[str, Native] = field(default_factory=dict)

    @staticmethod
    def load(path: str | Path) -> Record:
        """Return the record of a JSON file."""
        rows: dict[str, Any] = json.loads(Path(path).read_text())
        return Record({name: Native(tuple(row["forward"]), tuple(row["backward"])) for name, row in rows.items()})

    def save(self, path: str | Path) -> None:
        """A line an OpInfo, so that a change reads well."""
        lines = [
            f"{json.dumps(name)}: {json.dumps({'forward': row.forward, 'backward': row.backward})}"
            for name, row in sorted(self.ops.items())
            if row.forward or row.backward
        ]
        Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")

    def pairs(self, direction: str = "forward") -> int:
        """Return the number of pairs of op and dtype that are native."""
        return sum(len(getattr(row, direction)) for row in self.ops.values())

    def lost(self, new: Record) -> list[str]:
        """What `self` has and `new` has not: "abs forward int8"."""
        missing = []
        for name, row in self.ops.items():
            now = new.ops.get(name, Native())
            for direction in ("forward", "backward"):
                gone = set(getattr(row, direction)) - set(getattr(now, direction))
                missing += [f"{name} {direction} {dtype}" for dtype in sorted(gone)]
        return missing

    def updated(self, new: Record, swept: set[str]) -> Record:
        """The record after a sweep of the named OpInfos; the others' rows stay."""
        kept = {name: row for name, row in self.ops.items() if name not in swept}
        return Record(kept | {name: row for name, row in new.ops.items() if name in swept})
