"""Files for other viewers."""

import json
from pathlib import Path

import torch
from report_models import FallbackModel

import torch_atalla
from torch_atalla.__main__ import main
from torch_atalla.loadable.description import describe
from torch_atalla.reports.netron import netron


def producers(module: dict) -> dict[str, str]:
    """The node that makes each value."""
    return {value: node["name"] for node in module["nodes"] for port in node["outputs"] for value in port["value"]}


def test_netron(bert: Path, tmp_path: Path) -> None:
    assert main(["inspect", str(bert), "--netron", str(tmp_path / "bert.json")]) == 0
    text = (tmp_path / "bert.json").read_text()
    assert text.startswith('{"signature": "netron:')  # Netron looks at the first key
    launches, nodes = json.loads(text)["modules"]
    data = describe(str(bert))
    assert [node["type"]["name"] for node in launches["nodes"]] == [
        data["kernels"][inst["kernel"]]["name"] for inst in data["instructions"]
    ]
    assert [node["name"] for node in nodes["nodes"]] == [node["name"] for node in data["nodes"]]
    for module in (launches, nodes):
        made, known = producers(module), {value["name"] for value in module["arguments"]}
        free = {value["name"] for value in module["arguments"] if "initializer" in value}
        free |= {value for port in module["inputs"] for value in port["value"]}
        used = {value for node in module["nodes"] for port in node["inputs"] for value in port["value"]}
        assert used <= known and used <= made.keys() | free
        assert all(value in made for port in module["outputs"] for value in port["value"])


def test_netron_tells_why_a_node_falls_back(tmp_path: Path) -> None:
    torch_atalla.save_loadable(FallbackModel().eval(), tmp_path / "f.atl", args=(torch.randn(4, 8),))
    launches, nodes = netron(describe(str(tmp_path / "f.atl")))["modules"]
    assert "host_call" in [node["type"]["name"] for node in launches["nodes"]]
    (scale,) = [node for node in nodes["nodes"] if node["name"] == "scale"]
    assert {"name": "on the host, because", "value": "no native kernel"} in scale["attributes"]
