"""The extension of Model Explorer."""

from pathlib import Path

import pytest

from torch_atalla.loadable.description import describe

model_explorer = pytest.importorskip("model_explorer", reason="needs requirements-viewers.txt")


def test_graphs_and_cycles(bert: Path) -> None:
    from torch_atalla.reports.model_explorer import CyclesProvider, LoadableAdapter

    aten, launches = LoadableAdapter().convert(str(bert), {})["graphs"]
    data = describe(str(bert))
    assert [node.id for node in aten.nodes] == [node["name"] for node in data["nodes"]]
    assert len(launches.nodes) == len(data["instructions"])
    by_id = {node.id: node for node in aten.nodes}
    assert by_id["linear"].namespace == "model/encoder/layer/0/attention/self/query"
    assert [edge.sourceNodeId for edge in by_id["add_1"].incomingEdges] == ["add"]
    for graph in (aten, launches):
        result = CyclesProvider().run("torch_atalla_cycles", str(bert), graph.id, {}, graph).result
        assert sum(item.value for item in result.results.values()) == data["methods"][0]["estimate_cycles"]
        assert result.results.keys() <= {node.id for node in graph.nodes}
