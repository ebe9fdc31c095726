# SPDX-License-Identifier: BSD-3-Clause
"""Graphs and memory plans as SVG, without a library: for --dump."""

from __future__ import annotations

from html import escape

import torch

from torch_atalla.driver.dtypes import short_name

from ...schedule.plan import MemoryPlan

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 34, 16, 26, 10
_COLOURS = {"placeholder": "#dbeafe", "get_attr": "#e5e7eb", "output": "#dcfce7", "call_function": "#ffffff"}
_PALETTE = ("#93c5fd", "#86efac", "#fcd34d", "#fca5a5", "#c4b5fd", "#67e8f9", "#f9a8d4", "#d6d3d1")


def draw_graph(graph: torch.fx.Graph) -> str:
    """Nodes in layers: each below all that it reads."""
    layer: dict[torch.fx.Node, int] = {}
    rows: dict[int, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        layer[node] = 1 + max((layer[arg] for arg in node.all_input_nodes), default=-1)
        rows.setdefault(layer[node], []).append(node)
    place = {
        node: (_MARGIN + x * (_WIDTH + _GAP_X), _MARGIN + y * (_HEIGHT + _GAP_Y))
        for y, nodes in rows.items()
        for x, node in enumerate(nodes)
    }
    body = []
    for node, (x, y) in place.items():
        for arg in node.all_input_nodes:
            ax, ay = place[arg]
            body.append(
                f'<line x1="{ax + _WIDTH // 2}" y1="{ay + _HEIGHT}" x2="{x + _WIDTH // 2}" y2="{y}" stroke="#9ca3af"/>'
            )
    for node, (x, y) in place.items():
        body += _box(x, y, _COLOURS.get(node.op, "#ffffff"), (node.name, _summary(node)))
    width = max((x for x, _ in place.values()), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in place.values()), default=0) + _HEIGHT + _MARGIN
    return _svg(width, height, body)


def _summary(node: torch.fx.Node) -> str:
    value = node.meta.get("val")
    shape = ""
    if isinstance(value, torch.Tensor):
        shape = f"{short_name(value.dtype)}[{', '.join(map(str, value.shape))}]"
    what = str(node.target) if node.op == "call_function" else node.op
    return f"{what} {shape}"


def _box(x: int, y: int, colour: str, lines: tuple[str, str]) -> list[str]:
    text = [f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="3" fill="{colour}" stroke="#374151"/>']
    for i, line in enumerate(lines):
        short = line if len(line) <= 34 else line[:33] + "\u2026"
        text.append(f'<text x="{x + 5}" y="{y + 14 + 13 * i}"><title>{escape(line)}</title>{escape(short)}</text>')
    return text


def draw_plan(plan: MemoryPlan) -> str:
    """Time (instructions) to the right, addresses upwards: each temporary is a rectangle."""
    width, height = 1000, 500
    last = max((slot.last for slot in plan.slots), default=0) + 1
    arena = max(plan.arena_bytes, 1)
    body = [f'<rect x="0" y="0" width="{width}" height="{height}" fill="#f9fafb" stroke="#374151"/>']
    for i, slot in enumerate(plan.slots):
        x, w = slot.first * width / last, (slot.last + 1 - slot.first) * width / last
        h = slot.nbytes * height / arena
        y = height - slot.offset * height / arena - h
        name = " = ".join(f"t{buffer}" for buffer in slot.buffers)
        title = f"{name}: {slot.nbytes} bytes at {slot.offset}, instructions {slot.first} to {slot.last}"
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" fill="{_PALETTE[i % len(_PALETTE)]}" '
            f'stroke="#374151" stroke-width="0.5"><title>{escape(title)}</title></rect>'
        )
    return _svg(width, height, body)


def _svg(width: int, height: int, body: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace" '
    return "\n".join([head + 'font-size="9">', *body, "</svg>"])
