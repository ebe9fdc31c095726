# SPDX-License-Identifier: BSD-3-Clause
"""Layered layout of an acyclic graph, after Sugiyama, Tagawa and Toda (1981).

Edges point down. A node's layer is one below its lowest input. An edge over several layers gets one invisible point per
layer between, so that it does not cross nodes. Sweeps order each layer by the mean position of the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SWEEPS = 8
_POINT_WIDTH = 0.35  # of an invisible point, in widths of a node


@dataclass(frozen=True)
class Layout:
    """Places in units of one node and its margin. nodes: (x, y) of each center. edges: (from, to, points between)."""

    width: float
    height: int
    nodes: list[tuple[float, int]]
    edges: list[tuple[int, int, list[tuple[float, int]]]]


def layered(inputs: Sequence[Sequence[int]]) -> Layout:
    """Lay out a graph. inputs[i]: numbers of the nodes with an edge to node i; each must be smaller than i."""
    layer: list[int] = []
    for i, sources in enumerate(inputs):
        if any(source >= i for source in sources):
            raise ValueError(f"node {i} has the inputs {list(sources)}; expected numbers below {i}")
        layer.append(max((layer[source] + 1 for source in sources), default=0))
    users: list[list[int]] = [[] for _ in inputs]
    for i, sources in enumerate(inputs):
        for source in sources:
            users[source].append(i)
    for i in reversed(range(len(inputs))):  # sources go down to just above their first user
        if not inputs[i] and users[i]:
            layer[i] = min(layer[user] for user in users[i]) - 1
    n = len(inputs)
    place = list(layer)  # of nodes, and of the invisible points behind them
    above: list[list[int]] = [[] for _ in range(n)]
    below: list[list[int]] = [[] for _ in range(n)]
    paths: list[tuple[int, int, list[int]]] = []
    for i, sources in enumerate(inputs):
        for source in dict.fromkeys(sources):
            path, last = [], source
            for level in range(layer[source] + 1, layer[i]):
                path.append(len(place))
                place.append(level)
                above.append([last])
                below.append([])
                below[last].append(path[-1])
                last = path[-1]
            above[i].append(last)
            below[last].append(i)
            paths.append((source, i, path))
    x = _positions(place, above, below, n)
    left = min((x[i] - 0.5 for i in range(n)), default=0.0)
    right = max((x[i] + 0.5 for i in range(len(place))), default=0.0)

    def point(i: int) -> tuple[float, int]:
        return round(x[i] - left, 2), place[i]

    nodes = [point(i) for i in range(n)]
    edges = [(a, b, [point(k) for k in path]) for a, b, path in paths]
    return Layout(round(right - left, 2), max(place, default=-1) + 1, nodes, edges)


def _positions(place: list[int], above: list[list[int]], below: list[list[int]], n: int) -> list[float]:
    layers: list[list[int]] = [[] for _ in range(max(place, default=-1) + 1)]
    for i, level in enumerate(place):
        layers[level].append(i)
    width = [1.0 if i < n else _POINT_WIDTH for i in range(len(place))]
    x = [0.0] * len(place)
    for members in layers:
        _pack(members, x, width, [0.0] * len(members))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for members in layers if down else reversed(layers):
            wanted = {i: sum(x[k] for k in near) / len(near) if (near := neighbours[i]) else x[i] for i in members}
            members.sort(key=lambda i: wanted[i])
            _pack(members, x, width, [wanted[i] for i in members])
    return x


def _pack(members: list[int], x: list[float], width: list[float], wanted: list[float]) -> None:
    """Place a layer without overlaps, in its order, with the least squared distance to the wanted positions."""
    offsets, at = [], 0.0
    for k, i in enumerate(members):
        at += (width[members[k - 1]] + width[i]) / 2 if k else 0.0
        offsets.append(at)
    blocks: list[tuple[float, int]] = []  # mean of wanted - offset, members: pooled where they would overlap
    for want, offset in zip(wanted, offsets):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] >= mean:
            other, several = blocks.pop()
            mean, count = (mean * count + other * several) / (count + several), count + several
        blocks.append((mean, count))
    k = 0
    for mean, count in blocks:
        for _ in range(count):
            x[members[k]] = mean + offsets[k]
            k += 1
