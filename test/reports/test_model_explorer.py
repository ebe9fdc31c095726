"""The extension of Model Explorer."""

from contextlib import closing
from pathlib import Path

import pytest

from torch_atalla.driver.runtime import Program
from torch_atalla.loadable.description import describe

model_explorer = pytest.importorskip("model_explorer", reason="needs requirements-viewers.txt")


def test_graphs_cycles_and_energy(bert: Path) -> None:
    from torch_atalla.reports.model_explorer import LoadableAdapter, RunProvider

    aten, launches = LoadableAdapter().convert(str(bert), {})["graphs"]
    data = describe(str(bert))
    assert [node.id for node in aten.nodes] == [node["name"] for node in data["nodes"]]
    assert len(launches.nodes) == len(data["instructions"])
    by_id = {node.id: node for node in aten.nodes}
    assert by_id["linear"].namespace == "model/encoder/layer/0/attention/self/query"
    assert [edge.sourceNodeId for edge in by_id["add_1"].incomingEdges] == ["add"]
    with closing(Program(bert)) as program:
        program.load(0)
        joules = program.estimate_joules()
    for graph in (aten, launches):
        sums = {}
        for provider in RunProvider.metadata:
            result = RunProvider().run(provider.id, str(bert), graph.id, {}, graph).result
            assert result.results.keys() <= {node.id for node in graph.nodes}
            sums[provider.id] = sum(item.value for item in result.results.values())
        assert sums["torch_atalla_cycles"] == data["methods"][0]["estimate_cycles"]
        assert sums["torch_atalla_energy"] == pytest.approx(joules * 1e9, rel=1e-6)
