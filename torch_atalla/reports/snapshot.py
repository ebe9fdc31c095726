# SPDX-License-Identifier: BSD-3-Clause
"""Snapshots of the caching allocator (torch.atalla.memory._snapshot): its blocks over the recorded actions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Block:
    """One allocation. first, last: numbers of the actions that allocate and free it; 0 if it is older than the history,
    None if it is still in use. place: bytes from the bottom of the chart. stack: innermost frame first."""

    address: int
    bytes: int
    place: int
    first: int
    last: int | None
    stream: int
    stack: list[str]


@dataclass(frozen=True)
class Segment:
    """Memory that the allocator took from the device. place: as that of blocks."""

    address: int
    bytes: int
    place: int


@dataclass(frozen=True)
class Device:
    """The history of one device. actions: how many were recorded. used[i]: bytes of blocks in use after action i."""

    name: str
    actions: int
    segments: list[Segment]
    blocks: list[Block]
    used: list[int]


@dataclass(frozen=True)
class Snapshot:
    """The document of a page of memory snapshots."""

    title: str
    devices: list[Device]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def of_snapshot(snapshot: dict[str, Any]) -> Snapshot:
    """Return the document of a snapshot. Raises ValueError if the dict is not one."""
    if not {"segments", "device_traces"} <= snapshot.keys():
        raise ValueError(
            f"report: expected the keys 'segments' and 'device_traces' of torch.atalla.memory._snapshot(), "
            f"found {sorted(snapshot)}"
        )
    traces = snapshot["device_traces"]
    devices = []
    for number in range(max(len(traces), 1 + max((s["device"] for s in snapshot["segments"]), default=-1))):
        segments = [segment for segment in snapshot["segments"] if segment["device"] == number]
        trace = traces[number] if number < len(traces) else []
        if segments or trace:
            devices.append(_device(f"atalla:{number}", segments, trace))
    return Snapshot("Device memory", devices)


def _device(name: str, live: list[dict[str, Any]], trace: list[dict[str, Any]]) -> Device:
    sizes = {segment["address"]: segment["total_size"] for segment in live}
    for entry in trace:
        if entry["action"] in ("segment_alloc", "segment_free"):
            sizes[entry["addr"]] = max(sizes.get(entry["addr"], 0), entry["size"])
    segments, top = [], 0
    for address in sorted(sizes):
        segments.append(Segment(address, sizes[address], top))
        top += sizes[address]

    def place(address: int) -> int:
        below = [s for s in segments if s.address <= address]
        return below[-1].place + address - below[-1].address if below else 0

    done: list[Block] = []
    in_use: dict[int, Block] = {}
    for i, entry in enumerate(trace):
        address, size = entry["addr"], entry["size"]
        if entry["action"] == "alloc":
            stack = _stack(entry["frames"])
            in_use[address] = Block(address, size, place(address), i, None, entry["stream"], stack)
        elif entry["action"] == "free_completed":  # of a block older than the history, too
            block = in_use.pop(address, None) or Block(address, size, place(address), 0, None, entry["stream"], [])
            block.last = i
            done.append(block)
    for segment in live:
        for old in segment["blocks"]:
            if old["state"] != "inactive" and old["address"] not in in_use:
                stack, address = _stack(old["frames"]), old["address"]
                in_use[address] = Block(address, old["size"], place(address), 0, None, segment["stream"], stack)
    blocks = sorted([*done, *in_use.values()], key=lambda block: (block.first, block.place))
    return Device(name, len(trace), segments, blocks, _used(blocks, len(trace)))


def _used(blocks: Iterable[Block], actions: int) -> list[int]:
    change = [0] * (actions + 1)
    for block in blocks:
        change[block.first] += block.bytes
        if block.last is not None:
            change[block.last] -= block.bytes
    used, total = [], 0
    for difference in change[: max(actions, 1)]:
        total += difference
        used.append(total)
    return used


def _stack(frames: Iterable[dict[str, Any]]) -> list[str]:
    """Python frames if there are some, else all."""
    texts = [f"{frame['filename'].rpartition('/')[2]}:{frame['line']} {frame['name']}" for frame in frames]
    python = [text for text in texts if ".py:" in text]
    return (python or texts)[:12]
