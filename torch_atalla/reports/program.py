# SPDX-License-Identifier: BSD-3-Clause
"""The nodes and instructions of one method of a loadable, as its file describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from torch_atalla.compiler.lower.views import is_view
from torch_atalla.loadable.file.graph import KEY, Graph, load_graph
from torch_atalla.loadable.leaves import method_key


@dataclass(frozen=True)
class Node:
    """One ATen op of the graph before fusion.

    inputs: numbers of the nodes whose results it takes; [] in files without the metadata `graph`. instruction: the
    number of the instruction that computes it; None for views, and for nodes of which the file does not tell. view: the
    node is a view or one of several results; it costs nothing and is not counted as an op. reason: why it runs on the
    host; "" if it runs on the chip. segment: number of the segment.
    """

    name: str
    op: str
    module: str
    source: str
    native: bool
    reason: str
    segment: int
    flops: int
    view: bool
    inputs: list[int]
    instruction: int | None


@dataclass(frozen=True)
class Instruction:
    """One kernel launch or host call of the graph after fusion.

    nodes: numbers of the nodes that it computes, its own node last. inputs: numbers of the instructions whose results
    it reads. node: its own node, which gives the module and the line of Python; None if it belongs to none. dtype and
    shape are those of the first output.
    """

    kernel: str
    kind: str
    dtype: str
    shape: list[int]
    cores: int
    segment: int
    node: int | None
    nodes: list[int]
    inputs: list[int]


@dataclass(frozen=True)
class Program:
    """One method. segments: names, in the order of their numbers."""

    method: str
    nodes: list[Node] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)


def read_program(data: dict[str, Any], number: int) -> Program:
    """Return a method of a file's description (loadable.description.describe)."""
    method = data["methods"][number]
    first, count = method["nodes"]
    begin, instructions = method["instructions"]
    base, segments = method["segments"]
    graph = load_graph(data["metadata"], method_key(KEY, method["name"], number)) or Graph()
    rows = data["instructions"][begin : begin + instructions]
    computed = [_computed(data, row, graph, i, first) for i, row in enumerate(rows)]
    owner = {node: i for i, (_, nodes) in enumerate(computed) for node in nodes}
    nodes = [
        Node(
            name=row["name"],
            op=row["op"],
            module=row["module"],
            source=row["source"],
            native=row["native"],
            reason=row["reason"],
            segment=row["segment"] - base,
            flops=row["flops"],
            view=_is_view(row["op"]),
            inputs=graph.inputs[i] if i < len(graph.inputs) else [],
            instruction=owner.get(i),
        )
        for i, row in enumerate(data["nodes"][first : first + count])
    ]
    edges = _edges(data, rows)
    linear = [_instruction(data, row, base, node, done, edge) for row, (node, done), edge in zip(rows, computed, edges)]
    names = [segment["name"] for segment in data["segments"][base : base + segments]]
    return Program(method["name"], nodes, linear, names)


@cache
def _is_view(name: str) -> bool:
    """Whether the op called `name` in files computes nothing. An op that is not registered here is taken to compute."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    try:
        op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    except AttributeError:
        return not rest  # a Python function, which takes one of several results
    return is_view(op)


def _computed(
    data: dict[str, Any], row: dict[str, Any], graph: Graph, number: int, first: int
) -> tuple[int | None, list[int]]:
    """The instruction's own node, and all nodes that it computes."""
    own = None if row["node"] is None else row["node"] - first
    nodes = list(graph.fused[number]) if number < len(graph.fused) else []
    if row["kind"] == "host_call":  # a whole segment
        begin, count = data["segments"][row["segment"]]["nodes"]
        nodes = [*range(begin - first, begin - first + count)]
        own = nodes[-1] if own is None and nodes else own
    return own, nodes if own is None or own in nodes else [*nodes, own]


def accesses(data: dict[str, Any], row: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the memory operands that an instruction writes, and those that it reads."""
    if row["kind"] == "host_call":
        call = data["host_calls"][row["host_call"]]
        return [data["values"][k] for k in call["outputs"]], [data["values"][k] for k in call["inputs"]]
    n, operands = row["n_outputs"], row["operands"]
    outputs, inputs = ([x for x in part if x is not None and "storage" in x] for part in (operands[:n], operands[n:]))
    return outputs, inputs


def _edges(data: dict[str, Any], rows: list[dict[str, Any]]) -> list[list[int]]:
    """For each instruction, the latest instruction that wrote each storage which it reads."""
    writer: dict[int, int] = {}
    edges = []
    for i, row in enumerate(rows):
        outputs, inputs = accesses(data, row)
        edges.append(sorted({writer[x["storage"]] for x in inputs if x["storage"] in writer}))
        writer |= {x["storage"]: i for x in outputs}
    return edges


def _instruction(
    data: dict[str, Any], row: dict[str, Any], base: int, node: int | None, nodes: list[int], inputs: list[int]
) -> Instruction:
    outputs, _ = accesses(data, row)
    first: dict[str, Any] = outputs[0] if outputs else {"dtype": "", "sizes": []}
    is_call = row["kind"] == "host_call"
    return Instruction(
        kernel="host_call" if is_call else data["kernels"][row["kernel"]]["name"] if "kernel" in row else row["kind"],
        kind=row["kind"],
        dtype=first["dtype"],
        shape=list(first["sizes"]),
        cores=row.get("cores", 1),
        segment=row["segment"] - base,
        node=node,
        nodes=nodes,
        inputs=inputs,
    )
