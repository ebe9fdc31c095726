# SPDX-License-Identifier: BSD-3-Clause
"""The metadata with the graph of a method: edges between nodes, and the nodes that each launch computes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

KEY = "graph"  # method_key(KEY, ...) of a method


@dataclass(frozen=True)
class Graph:
    """Nodes are numbered from the method's first node, instructions from the method's first instruction.

    inputs: for each node, the nodes whose results it takes. fused: for each instruction, the nodes that it computes
    besides its own node.
    """

    inputs: list[list[int]] = field(default_factory=list)
    fused: list[list[int]] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def load_graph(metadata: Mapping[str, str], key: str) -> Graph | None:
    """Return the graph of a method; None for a file that was written without it."""
    text = metadata.get(key)
    return Graph(**json.loads(text)) if text else None
