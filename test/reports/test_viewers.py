"""Files for other viewers."""

import json
from pathlib import Path

import torch
from report_models import FallbackModel

import torch_atalla
from torch_atalla.__main__ import main
from torch_atalla.device.chrome_trace import events
from torch_atalla.device.html_table import html_table
from torch_atalla.loadable.description import describe
from torch_atalla.reports.netron import netron
from torch_atalla.telemetry import Recording


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


# ------------------------------------------------------------------------------------------------------------ traces
def test_utilisation_counters_add_up_to_the_busy_cycles() -> None:
    x = torch.randn(64, 64, device="atalla")
    torch.atalla.synchronize()
    with Recording() as recording:
        (x @ x).relu().sum()
    (device,) = [device for device in recording.devices if device.work]
    counters: dict[str, list[tuple[float, float]]] = {}
    for event in events([device], recording.origin):
        if event["ph"] == "C" and ("utilisation" in event["name"] or event["name"] == "DRAM bytes per cycle"):
            (value,) = event["args"].values()
            counters.setdefault(event["name"], []).append((event["ts"] * device.clock_hz / 1e6, value))
    expected = {f"{unit} utilisation": sum(getattr(w, f"{unit}_cycles") for w in device.work)
                for unit in ("sdma", "vector", "array")}  # fmt: skip
    expected["DRAM bytes per cycle"] = sum(w.dram_bytes_read + w.dram_bytes_written for w in device.work)
    for name, points in counters.items():
        area = sum(value * (after - cycle) for (cycle, value), (after, _) in zip(points, points[1:]))
        assert abs(area - expected[name]) <= 0.001 * expected[name] + 1, name
        assert points[-1][1] == 0
    assert counters.keys() == expected.keys()


def test_scratchpad_counter_follows_what_launches_occupy() -> None:
    x = torch.randn(64, 64, device="atalla")
    torch.atalla.synchronize()
    with torch_atalla.chip.clock("roofline"), Recording() as recording:
        (x @ x).relu()
    (device,) = [device for device in recording.devices if device.work]
    product, relu = [w for w in device.work if w.kind == "launch"]
    tile = 2048  # bytes of the largest SDMA tile; each operand has two under way (docs/concepts/timing.md)
    assert relu.scratchpad_bytes in (2 * 2 * tile, 3 * 2 * tile)  # input and output, perhaps a program
    assert product.scratchpad_bytes in (3 * 2 * tile, 4 * 2 * tile)
    found = {
        round(event["ts"] * device.clock_hz / 1e6): event["args"]["bytes"]
        for event in events([device], 0)
        if event["ph"] == "C" and event["name"] == "scratchpads"
    }
    expected = {product.start_cycle: product.scratchpad_bytes, product.end_cycle: relu.scratchpad_bytes}
    assert found == {**expected, relu.start_cycle: relu.scratchpad_bytes, relu.end_cycle: 0}


# --------------------------------------------------------------------------------------------------------- notebooks
def test_tables_of_notebooks(bert: Path) -> None:
    program = torch_atalla.load_loadable(bert)
    assert '<td style="text-align:left">input_ids</td>' in program._repr_html_()
    assert "100.0% of ops" in program.report._repr_html_()
    config = torch_atalla.chip.config()
    assert "array.rows" in config._repr_html_()
    assert f">{torch_atalla.telemetry.counters().launches:,}<" in torch_atalla.telemetry.counters()._repr_html_()
    page = torch_atalla.report(bert)._repr_html_()
    assert page.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert html_table([("<b>", 1234567)]) == (
        '<table><tbody><tr><td style="text-align:left">&lt;b&gt;</td><td style="text-align:right">1,234,567</td></tr>'
        "</tbody></table>"
    )
