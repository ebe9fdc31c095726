# SPDX-License-Identifier: BSD-3-Clause
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PassResult:
    """What a pass did: how many nodes it removed or replaced, and their names."""

    name: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.nodes[:8]) + (", ..." if len(self.nodes) > 8 else "")
        return f"{self.name}: {len(self.nodes)} nodes" + (f" ({shown})" if shown else "")
