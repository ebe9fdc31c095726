"""The page of a report in Chromium: every tab, the links in both directions, keyboard, narrow windows, size and speed.

ATALLA_WRITE_SCREENSHOTS=1 writes the pictures of docs/guides/report.md.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from browser import CHROMIUM, Browser
from report_models import Encoder, FallbackModel

import torch_atalla
from torch_atalla.reports.document import Document, of_program
from torch_atalla.reports.layout import layered
from torch_atalla.reports.report import Report
from torch_atalla.reports.timeline import UNITS

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
STATIC = Path(__file__).resolve().parents[2] / "docs/static"
TABS = ["overview", "modules", "graph", "timeline", "memory", "roofline", "nodes"]
PICTURES = {
    "overview": "overview",
    "modules": "modules/module/1",
    "graph": "graph/instruction/10",
    "timeline": "timeline/span/9",
    "memory": "memory/instruction/6",
    "roofline": "roofline/span/10",
    "nodes": "nodes/node/25",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(bert: Path) -> Path:
    path = bert.with_suffix(".html")
    torch_atalla.report(bert, path)
    return path


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    browser.window(1200, 820)
    browser.open(page)
    yield browser
    assert browser.errors == []


def colors(browser: Browser, part: str) -> int:
    """How many colours the first canvas of a part of the page has: 1 if nothing is drawn."""
    browser.paint()
    return browser.evaluate(
        f"""(() => {{ const c = document.querySelector("{part} canvas");
        const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
        return new Set(d).size; }})()"""
    )


@pytest.mark.parametrize("width, dark", [(1200, False), (1200, True), (390, False)])
def test_every_tab_is_drawn(opened: Browser, page: Path, width: int, dark: bool, tmp_path: Path) -> None:
    opened.window(width, 820, dark)
    opened.open(page)
    assert opened.evaluate("[...document.querySelectorAll('[role=tab]')].map((t) => t.id.slice(4))") == TABS
    for name in TABS:
        opened.go(PICTURES[name])
        visible = "[...document.querySelectorAll('[role=tabpanel]')].filter((s) => !s.hidden).map((s) => s.id)"
        assert opened.evaluate(visible) == ["view-" + name]
        assert opened.evaluate(f"document.querySelector('#tab-{name}').getAttribute('aria-selected')") == "true"
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        if name in ("graph", "timeline", "memory", "roofline"):
            assert colors(opened, f"#view-{name}") > 10
        write = os.environ.get("ATALLA_WRITE_SCREENSHOTS") == "1" and width == 1200 and not dark
        picture = (STATIC if write else tmp_path) / f"report-{name}.png"
        opened.screenshot(picture)
        assert 10_000 < picture.stat().st_size < 200_000
    background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 23, 29)" if dark else "rgb(255, 255, 255)")


def links(browser: Browser, view: str, part: str) -> list[str]:
    return browser.evaluate(f"[...document.querySelectorAll('#view-{view} .chain .{part} a')].map((a) => a.hash)")


def test_chain_is_linked_in_both_directions(opened: Browser) -> None:
    opened.go("nodes/node/25")  # linear_3, which is fused into the launch of add_4
    text = opened.evaluate("document.querySelector('#view-nodes .chain').textContent")
    for part in ("modeling_bert.py:", "linear_3", "aten::linear", "add_4", "gemm_packed", "cycles", "scratchpad rows"):
        assert part in text
    module = links(opened, "nodes", "python")
    ways = links(opened, "nodes", "launch")
    assert [way.split("/")[0] for way in ways] == ["#timeline", "#roofline", "#memory", "#graph"]
    for way in [*links(opened, "nodes", "aten"), *ways]:
        opened.go(way)
        view = way[1:].split("/")[0]
        assert "#nodes/node/25" in links(opened, view, "aten"), way  # and back
    opened.go(module[0])
    row = "document.querySelector('#view-modules tr[aria-selected=true] a')"
    assert opened.evaluate(f"{row}.textContent") == "dense"
    opened.evaluate(f"{row}.click()")
    opened.wait("location.hash.startsWith('#nodes/module/')")
    opened.wait("document.querySelector('#view-nodes [data-id=\"25\"]')")
    assert opened.evaluate("document.querySelectorAll('#view-nodes .row').length") == 1


def test_a_click_selects(opened: Browser) -> None:
    for view, address in (("timeline", "#timeline/span/0"), ("memory", "#memory/instruction/0")):
        opened.go(view)
        plot = f"R.views.{view}." + ("plot" if view == "timeline" else "plots[0]")
        box = opened.evaluate(f"{plot}.canvas.getBoundingClientRect().toJSON()")
        x = opened.evaluate(f"{plot}.px(0.2)")
        y = 45 if view == "timeline" else opened.evaluate(f"{plot}.h") - 42
        opened.click(box["x"] + x + 2, box["y"] + y)
        opened.wait(f"location.hash === '{address}'")
    opened.go("roofline/span/0")
    x, y = opened.evaluate("R.views.roofline.place(R.doc.dots.find((d) => d.intensity > 1))")
    box = opened.evaluate("R.views.roofline.plot.canvas.getBoundingClientRect().toJSON()")
    opened.click(box["x"] + x, box["y"] + y)
    opened.wait("location.hash !== '#roofline/span/0'")


def test_keyboard(opened: Browser) -> None:
    opened.evaluate("document.querySelector('#tab-overview').focus()")
    opened.press("ArrowRight")
    opened.wait("location.hash === '#modules'")
    opened.evaluate("document.querySelector('#view-modules tbody a').focus()")
    rows = "document.querySelectorAll('#view-modules tbody tr').length"
    before = opened.evaluate(rows)
    opened.press("ArrowLeft")
    assert opened.evaluate(rows) == 1 < before
    opened.press("ArrowRight")
    assert opened.evaluate(rows) == before
    opened.go("timeline")
    opened.evaluate("R.views.timeline.plot.canvas.focus()")
    scale = opened.evaluate("R.views.timeline.plot.scale")
    opened.press("+")
    assert opened.evaluate("R.views.timeline.plot.scale") > 1.3 * scale
    opened.press("0")
    assert opened.evaluate("R.views.timeline.plot.scale") == scale
    opened.press("n")
    opened.wait("location.hash === '#timeline/span/0'")
    assert opened.evaluate("[...document.querySelectorAll('canvas')].every((c) => c.tabIndex === 0 && c.ariaLabel)")


def test_search(opened: Browser) -> None:
    opened.go("modules")
    field = "document.querySelector('#view-modules input')"
    opened.evaluate(f"{field}.value = 'layer.1.attention.self.q'; {field}.dispatchEvent(new Event('input'))")
    names = opened.evaluate("[...document.querySelectorAll('#view-modules tbody a')].map((a) => a.textContent)")
    assert names == ["(model)", "model", "encoder", "layer", "1", "attention", "self", "query"]
    opened.go("graph")
    opened.evaluate("R.views.graph.find('softmax')")
    opened.evaluate("R.views.graph.find('dot_product')")
    opened.wait("location.hash === '#graph/node/22'")


def test_fallbacks_are_explained(browser: Browser, tmp_path: Path) -> None:
    torch_atalla.save_loadable(FallbackModel().eval(), tmp_path / "f.atl", args=(torch.randn(4, 8),))
    torch_atalla.report(tmp_path / "f.atl", tmp_path / "f.html")
    browser.window(1200, 820)
    browser.open(tmp_path / "f.html")
    assert "no native kernel" in browser.evaluate("document.querySelector('#fallbacks').textContent")
    browser.evaluate("document.querySelector('#fallbacks a').click()")
    browser.wait("location.hash.startsWith('#nodes/node/')")
    assert "on the host: no native kernel" in browser.evaluate("document.querySelector('.chain').textContent")
    assert browser.errors == []


def test_page_of_a_recording(browser: Browser, tmp_path: Path) -> None:
    x = torch.randn(64, 64, device="atalla")
    with torch_atalla.telemetry.Recording() as recording:
        (x @ x).relu()
    torch_atalla.report(recording, tmp_path / "r.html")
    browser.open(tmp_path / "r.html")
    assert browser.evaluate("document.querySelectorAll('[role=tab]').length") == 4
    for view in ("overview", "timeline/span/1", "roofline/span/0", "nodes/span/1"):
        browser.go(view)
    assert "pointwise.relu" in browser.evaluate("document.querySelector('#view-nodes .chain').textContent")
    assert browser.errors == []


def repeated(document: Document, times: int) -> Document:
    """The document of a model that does all work `times` times in a row; only memory and code are as before."""
    program, timeline = document.program, document.timeline
    assert program is not None and document.modules is not None
    n, m, cycles, count = len(program.nodes), len(program.instructions), timeline.cycles, len(timeline.spans)
    nodes, instructions, spans, dots = [], [], [], []
    for k in range(times):
        for node in program.nodes:
            inputs = [i + k * n for i in node.inputs] or ([k * n - 1] if k else [])
            at = None if node.instruction is None else node.instruction + k * m
            nodes.append(replace(node, name=f"{node.name}_{k}", inputs=inputs, instruction=at))
        for inst in program.instructions:
            inputs = [i + k * m for i in inst.inputs] or ([k * m - 1] if k else [])
            own = None if inst.node is None else inst.node + k * n
            instructions.append(replace(inst, node=own, nodes=[i + k * n for i in inst.nodes], inputs=inputs))
        for span in timeline.spans:
            moved = {
                unit: (a + k * cycles, b + k * cycles, busy) for unit in UNITS for a, b, busy in [getattr(span, unit)]
            }
            at = None if span.instruction is None else span.instruction + k * m
            start, end = span.start + k * cycles, span.end + k * cycles
            spans.append(replace(span, start=start, end=end, instruction=at, **moved))
        dots += [replace(dot, span=dot.span + k * count) for dot in document.dots]
    return replace(
        document,
        program=replace(program, nodes=nodes, instructions=instructions),
        timeline=replace(timeline, spans=spans, cycles=cycles * times),
        dots=dots,
        layouts=(layered([node.inputs for node in nodes]), layered([inst.inputs for inst in instructions])),
    )


def test_large_model_is_small_and_fast(browser: Browser, bert: Path, tmp_path: Path) -> None:
    """2,040 nodes: below 10 MB, open within 2 s."""
    Report(repeated(of_program(bert), 40)).save(tmp_path / "large.html")
    assert (tmp_path / "large.html").stat().st_size < 10e6
    seconds = browser.open(tmp_path / "large.html")
    assert browser.evaluate("R.doc.program.nodes.length") == 2040
    assert seconds < 2
    addresses = ("graph/node/2000", "timeline/span/900", "memory", "roofline", "nodes/node/2000")
    for view in ("overview", "modules", *addresses):
        browser.go(view)
    assert colors(browser, "#view-graph") > 5
    assert "index_39" in browser.evaluate("document.querySelector('#view-nodes').textContent")
    assert browser.errors == []


def test_notebook_view(browser: Browser, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a notebook's cells: a loaded program, the counters of a run, and its report."""
    monkeypatch.chdir(bert.parent)
    program = torch_atalla.load_loadable(bert.name)
    torch_atalla.telemetry.reset()
    program(*(x.to("atalla") for x in Encoder().inputs.values()))
    shown = {
        "program": program,
        "torch_atalla.telemetry.counters()": torch_atalla.telemetry.counters(),
        "torch_atalla.report(program)": torch_atalla.report(bert),
    }
    cells = [f"<pre>{code}</pre>{value._repr_html_()}" for code, value in shown.items()]
    path = tmp_path / "notebook.html"
    style = "<style>body { font: 13px sans-serif } pre { background: #eee; padding: 6px }</style>"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>cells</title>{style}{''.join(cells)}")
    browser.window(1200, 1000)
    inside = "document.querySelector('iframe').contentDocument"
    browser.open(path, f"document.readyState === 'complete' && {inside}.body.dataset.ready === 'true'")
    assert browser.evaluate("document.querySelectorAll('table').length") >= 2
    assert browser.evaluate(f"{inside}.querySelectorAll('[role=tab]').length") == len(TABS)
    browser.paint()
    write = os.environ.get("ATALLA_WRITE_SCREENSHOTS") == "1"
    browser.screenshot((STATIC if write else tmp_path) / "report-notebook.png")
    assert browser.errors == []


def test_page_of_a_memory_snapshot(browser: Browser, tmp_path: Path) -> None:
    memory = torch.atalla.memory
    memory._record_memory_history()
    try:
        a = torch.randn(512, 512, device="atalla")
        b = a @ a
        c = [b.relu() for _ in range(4)]
        del a
        d = torch.cat(c)
        del c
        made = torch_atalla.report(memory._snapshot(), tmp_path / "m.html")
    finally:
        memory._record_memory_history(None)
    (device,) = [x for x in made.document.to_dict()["devices"] if x["name"] == "atalla:0"]
    assert device["used"][-1] == memory.memory_allocated()
    here = [block for block in device["blocks"] if any("test_page.py" in line for line in block["stack"])]
    assert len(here) == 7 and sum(block["last"] is not None for block in here) == 5 and d.shape[0] == 2048
    browser.window(1200, 820)
    browser.open(tmp_path / "m.html")
    browser.evaluate("document.querySelector('tbody button').click()")
    browser.wait("document.querySelector('.card')")
    assert colors(browser, "main") > 5 and browser.errors == []
    write = os.environ.get("ATALLA_WRITE_SCREENSHOTS") == "1"
    browser.screenshot((STATIC if write else tmp_path) / "report-snapshot.png")
    with pytest.raises(ValueError, match="expected the keys 'segments' and 'device_traces'"):
        torch_atalla.report({"segments": []})
