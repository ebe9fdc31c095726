# SPDX-License-Identifier: BSD-3-Clause
"""An extension of Google's Model Explorer: graphs of loadables by module, with cycles and energy as node data.

    model-explorer model.atl --extensions=torch_atalla.reports.model_explorer

It needs the package ai-edge-model-explorer (`pip install torch_atalla[viewers]`).
"""

from __future__ import annotations

import os
from typing import Any

import model_explorer
from model_explorer.graph_builder import Graph, GraphNode, IncomingEdge, KeyValue, MetadataItem
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult

from torch_atalla.loadable.description import describe

from .document import of_program
from .program import Node, Program, read_program

_ATEN, _LAUNCHES = "ATen", "launches"
# From little to much, as in the report's pages: colour-blind people can tell the ends apart.
_GRADIENT = [GradientItem(stop=0, bgColor="#ffffff"), GradientItem(stop=1, bgColor="#e69f00")]


class LoadableAdapter(model_explorer.Adapter):  # type: ignore[misc]
    """Converts a loadable: for each method a graph of its ATen nodes, and one of its launches."""

    metadata = model_explorer.AdapterMetadata(
        id="torch_atalla",
        name="Atalla loadables",
        description="Graphs of loadables before and after fusion",
        fileExts=["atl"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> model_explorer.ModelExplorerGraphs:
        """Return the graphs of a file. Raises RuntimeLibraryError for a file that is not a loadable."""
        data = describe(os.fspath(model_path))
        programs = [read_program(data, number) for number in range(len(data["methods"]))]
        return {"graphs": [graph for program in programs for graph in (_aten(program), _launches(program))]}


class RunProvider(model_explorer.NodeDataProvider):  # type: ignore[misc]
    """Runs a loadable once with random inputs, and gives the simulated cycles or the energy of each launch."""

    metadata = [
        model_explorer.NodeDataProviderMetadata(
            id=f"torch_atalla_{what}",
            name=f"Atalla {what}",
            description=description,
            icon=icon,
            filter=model_explorer.NodeDataProviderFilter(modelFileExts=["atl"]),
        )
        for what, description, icon in (
            ("cycles", "Simulated cycles of one run", "speed"),
            ("energy", "Simulated energy of one run, in nanojoules", "bolt"),
        )
    ]

    def get_config_editors(self, provider_id: str) -> model_explorer.GetConfigEditorsResult:
        """Return no editors: a run has no settings."""
        return model_explorer.GetConfigEditorsResult(configEditors=[])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Graph | None
    ) -> model_explorer.NodeDataProviderResult:
        """Return cycles, or nanojoules, by node of the graph; a launch of several nodes counts for the last of them."""
        method, _, kind = graph_id.rpartition(": ")
        document = of_program(model_path, method=method, code=False)
        program = document.program
        assert program is not None
        energy = provider_id == "torch_atalla_energy"
        values: dict[str, float] = {}
        for span in document.timeline.spans:
            if span.instruction is None:
                continue
            node = program.instructions[span.instruction].node
            key = str(span.instruction) if kind == _LAUNCHES else "" if node is None else program.nodes[node].name
            if key:
                values[key] = values.get(key, 0) + (span.joules * 1e9 if energy else span.alone)
        results = {key: NodeDataResult(value=value) for key, value in values.items()}
        data = GraphNodeData(results=results, name="nanojoules" if energy else "cycles", gradient=_GRADIENT)
        return model_explorer.NodeDataProviderResult(result=data)


def _aten(program: Program) -> Graph:
    nodes = [
        GraphNode(
            id=node.name,
            label=node.op.removeprefix("aten::"),
            namespace=node.module.replace(".", "/"),
            attrs=_attributes(program, node) + _attribute("launch", node.instruction),
            incomingEdges=_edges([program.nodes[i].name for i in node.inputs]),
        )
        for node in program.nodes
    ]
    return Graph(id=f"{program.method}: {_ATEN}", nodes=nodes)


def _launches(program: Program) -> Graph:
    nodes = []
    for i, inst in enumerate(program.instructions):
        own = None if inst.node is None else program.nodes[inst.node]
        computed = ", ".join(program.nodes[k].name for k in inst.nodes)
        shape = f"{inst.dtype}[{', '.join(map(str, inst.shape))}]"
        nodes.append(
            GraphNode(
                id=str(i),
                label=inst.kernel,
                namespace=own.module.replace(".", "/") if own else "",
                attrs=_attribute("computes", computed) + (_attributes(program, own) if own else []),
                incomingEdges=_edges(list(map(str, inst.inputs))),
                outputsMetadata=[MetadataItem(id="0", attrs=[KeyValue(key="tensor_shape", value=shape)])],
            )
        )
    return Graph(id=f"{program.method}: {_LAUNCHES}", nodes=nodes)


def _edges(sources: list[str]) -> list[IncomingEdge]:
    return [IncomingEdge(sourceNodeId=name, targetNodeInputId=str(k)) for k, name in enumerate(sources)]


def _attribute(key: str, value: Any) -> list[KeyValue]:
    return [] if value in ("", None) else [KeyValue(key=key, value=str(value))]


def _attributes(program: Program, node: Node) -> list[KeyValue]:
    return (
        _attribute("line", node.source)
        + _attribute("segment", program.segments[node.segment])
        + _attribute("on the host, because", node.reason)
    )
