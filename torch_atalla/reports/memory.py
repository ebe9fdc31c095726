# SPDX-License-Identifier: BSD-3-Clause
"""The memory plan of a method: pieces of the arena over the instructions of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_atalla.compiler.schedule.plan import aligned

from .program import accesses


@dataclass(frozen=True)
class Piece:
    """One temporary. Offsets and sizes are in bytes; it lives from instruction `first` to instruction `last`."""

    name: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """The arena of one method. live[i]: bytes that live at instruction i; no plan needs less than the largest.

    weights, states: bytes of parameters and of mutable buffers in the whole file.
    """

    arena_bytes: int
    lower_bound: int
    without_reuse: int
    weights: int
    states: int
    live: list[int]
    pieces: list[Piece]


def memory_plan(data: dict[str, Any], number: int, without_reuse: int) -> MemoryPlan:
    """Return the plan of a method.

    data: a file's description. without_reuse: bytes of all temporaries side by side.
    """
    method = data["methods"][number]
    begin, count = method["instructions"]
    rows = data["instructions"][begin : begin + count]
    used = {x["storage"] for row in rows for part in accesses(data, row) for x in part}
    storages = data["storages"]
    pieces = []
    for i in sorted(used):
        storage = storages[i]
        if storage["space"] == "arena" and storage["bytes"]:
            first, last = (at - begin for at in storage["live"])
            pieces.append(Piece(storage["name"], storage["offset"], storage["bytes"], first, last))
    live = [sum(aligned(p.bytes) for p in pieces if p.first <= i <= p.last) for i in range(count)]
    sizes = {space: sum(s["bytes"] for s in storages if s["space"] == space) for space in ("weights", "state")}
    return MemoryPlan(
        arena_bytes=method["arena_bytes"],
        lower_bound=max(live, default=0),
        without_reuse=without_reuse,
        weights=sizes["weights"],
        states=sizes["state"],
        live=live,
        pieces=pieces,
    )
