# SPDX-License-Identifier: BSD-3-Clause
"""The memory plan of a method: pieces of the arena and of the scratchpads over the instructions of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_atalla.compiler.schedule.plan import aligned

from .program import accesses


@dataclass(frozen=True)
class Piece:
    """One temporary. Offsets and sizes are in bytes; it lives from instruction `first` to instruction `last`.

    pad, pad_offset: its place in a scratchpad if it is kept there; None if it is kept in DRAM. A piece in a
    scratchpad also has its place in DRAM, for a chip without room.
    """

    name: str
    offset: int
    bytes: int
    first: int
    last: int
    pad: int | None
    pad_offset: int | None


@dataclass(frozen=True)
class MemoryPlan:
    """The arena of one method. live[i]: bytes that live at instruction i; no plan needs less than the largest.

    weights, states: bytes of parameters and of mutable buffers in the whole file. pad_bytes: of each scratchpad.
    """

    arena_bytes: int
    lower_bound: int
    without_reuse: int
    weights: int
    states: int
    scratchpads: int
    pad_bytes: int
    live: list[int]
    pieces: list[Piece]


def memory_plan(data: dict[str, Any], number: int, without_reuse: int, chip: dict[str, Any]) -> MemoryPlan:
    """Return the plan of a method.

    data: a file's description. without_reuse: bytes of all temporaries side by side. chip: the chip configuration.
    """
    method = data["methods"][number]
    begin, count = method["instructions"]
    rows = data["instructions"][begin : begin + count]
    used = {x["storage"] for row in rows for part in accesses(data, row) for x in part}
    resident = {row["storage"]: (row["pad"], row["offset"]) for row in data["residency"]}
    storages = data["storages"]
    pieces = []
    for i in sorted(used):
        storage = storages[i]
        if storage["space"] == "arena" and storage["bytes"]:
            first, last = (at - begin for at in storage["live"])
            place = resident.get(i, (None, None))
            pieces.append(Piece(storage["name"], storage["offset"], storage["bytes"], first, last, *place))
    live = [sum(aligned(p.bytes) for p in pieces if p.first <= i <= p.last) for i in range(count)]
    sizes = {space: sum(s["bytes"] for s in storages if s["space"] == space) for space in ("weights", "state")}
    return MemoryPlan(
        arena_bytes=method["arena_bytes"],
        lower_bound=max(live, default=0),
        without_reuse=without_reuse,
        weights=sizes["weights"],
        states=sizes["state"],
        scratchpads=chip["scratchpad"]["count"]["value"],
        pad_bytes=chip["scratchpad"]["bytes"]["value"],
        live=live,
        pieces=pieces,
    )
