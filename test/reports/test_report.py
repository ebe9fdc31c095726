"""The document of a report: each number against a second source."""

from pathlib import Path

import pytest
import torch
from report_models import FallbackModel

import torch_atalla
from torch_atalla.__main__ import main
from torch_atalla.reports.document import Document, of_program
from torch_atalla.reports.layout import layered
from torch_atalla.reports.report import Report, report
from torch_atalla.telemetry import Recording


@pytest.fixture(scope="module")
def document(bert: Path) -> Document:
    return of_program(bert)


@pytest.fixture(scope="module")
def fallback(tmp_path_factory: pytest.TempPathFactory) -> Document:
    path = tmp_path_factory.mktemp("fallback") / "fallback.atl"
    torch_atalla.save_loadable(FallbackModel().eval(), path, args=(torch.randn(4, 8),))
    return of_program(torch_atalla.load_loadable(path))


# ------------------------------------------------------------------------------------------------------------ cycles
def test_cycles_are_those_of_the_file(bert: Path, document: Document) -> None:
    saved = torch_atalla.load_loadable(bert).report
    assert document.modules is not None and document.program is not None
    root = document.modules[0]
    assert root.cycles == document.timeline.cycles == saved.estimate_cycles > 0
    assert root.launches == saved.launches == len(document.dots)
    assert (root.ops, root.native, root.flops) == (saved.ops, saved.native_ops, saved.flops)
    assert root.bytes == sum(span.bytes for span in document.timeline.spans)


def test_a_module_counts_what_its_children_count(document: Document) -> None:
    assert document.modules is not None
    for i, module in enumerate(document.modules):
        children = [m for m in document.modules if m.parent == i]
        for what in ("cycles", "bytes", "launches", "ops", "native", "flops"):
            assert sum(getattr(child, what) for child in children) <= getattr(module, what)
    names = [m.path for m in document.modules]
    assert "model.encoder.layer.1.attention.self.query" in names and len(set(names)) == len(names)


def test_losses_and_useful_cycles_are_the_whole_run(document: Document) -> None:
    useful = sum(span.macs for span in document.timeline.spans) / document.limits.array
    lost = sum(loss.cycles for loss in document.losses)
    assert abs(lost + useful - document.timeline.cycles) <= len(document.dots)  # rounded once per launch
    assert [loss.cycles for loss in document.losses] == sorted((x.cycles for x in document.losses), reverse=True)


def test_no_dot_is_above_the_roof(document: Document) -> None:
    limit = document.limits
    assert (limit.array, limit.vector, limit.dram) == (1024, 16, 4)  # 32 x 32; 32 lanes in 2 cycles; 8 bytes in 2
    for dot in document.dots:
        roof = {"array": limit.array, "vector": limit.vector, "": 0}[dot.unit]
        assert dot.rate <= min(roof, limit.dram * (dot.intensity if dot.intensity is not None else float("inf")))


# ------------------------------------------------------------------------------------------------------------- graph
def test_each_op_belongs_to_one_launch(document: Document) -> None:
    program = document.program
    assert program is not None
    for i, node in enumerate(program.nodes):
        assert (node.instruction is None) == node.view, node
        if node.instruction is not None:
            assert i in program.instructions[node.instruction].nodes
    fused = [inst for inst in program.instructions if len(inst.nodes) > 1]
    assert fused and all(inst.nodes[-1] == inst.node for inst in program.instructions)
    assert sum(len(inst.nodes) for inst in program.instructions) == sum(not node.view for node in program.nodes)


def test_edges_follow_the_values(document: Document) -> None:
    program = document.program
    assert program is not None
    by_name = {node.name: node for node in program.nodes}
    assert [program.nodes[i].name for i in by_name["add_1"].inputs] == ["add"]
    attention = by_name["scaled_dot_product_attention"]
    assert {program.nodes[i].name for i in attention.inputs} == {"permute", "permute_1", "permute_2", "where"}
    for i, inst in enumerate(program.instructions):
        assert all(source < i for source in inst.inputs)


def test_layout_has_no_overlaps_and_edges_point_down() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randint(0, i, (int(i > 0) + i % 2,), generator=generator).tolist() if i else [] for i in range(120)]
    layout = layered(inputs)
    for a, b, points in layout.edges:
        assert a in inputs[b]
        levels = [layout.nodes[a][1], *(y for _, y in points), layout.nodes[b][1]]
        assert levels == list(range(levels[0], levels[-1] + 1)) and len(levels) > 1
    rows: dict[int, list[float]] = {}
    for x, y in layout.nodes:
        assert 0 <= y < layout.height and 0.49 <= x <= layout.width - 0.49
        rows.setdefault(y, []).append(x)
    for row in rows.values():
        row.sort()
        assert all(b - a > 0.98 for a, b in zip(row, row[1:]))
    with pytest.raises(ValueError, match=r"node 1 has the inputs \[1\]; expected numbers below 1"):
        layered([[], [1]])


def test_reason_of_a_fallback(fallback: Document) -> None:
    program = fallback.program
    assert program is not None and fallback.modules is not None
    (refused,) = [node for node in program.nodes if not node.native]
    assert (refused.op, refused.module) == ("report_tests::scale", "scale") and refused.reason == "no native kernel"
    assert refused.instruction is not None and program.instructions[refused.instruction].kind == "host_call"
    scale = next(m for m in fallback.modules if m.path == "scale")
    assert (scale.host_calls, scale.ops, scale.native, scale.launches) == (1, 1, 0, 0)
    assert {span.kind for span in fallback.timeline.spans} == {"launch", "device_to_host", "host_to_device"}


# ------------------------------------------------------------------------------------------------------------ memory
def test_memory_plan_is_the_compilers(bert: Path, document: Document) -> None:
    plan, saved = document.memory, torch_atalla.load_loadable(bert).report
    assert plan is not None
    assert (plan.arena_bytes, plan.lower_bound) == (saved.arena_bytes, saved.arena_lower_bound)
    assert saved.residents > 0
    for i, a in enumerate(plan.pieces):
        assert 0 <= a.offset and a.offset + a.bytes <= plan.arena_bytes
        for b in plan.pieces[i + 1 :]:
            if a.first <= b.last and b.first <= a.last:  # they live at the same time
                assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset


# -------------------------------------------------------------------------------------------------------------- code
def test_calls_of_the_code(document: Document) -> None:
    code, program = document.code, document.program
    assert code is not None and program is not None
    assert sum(call.cycles for call in code.calls) == code.cycles
    assert all(call.cycles == call.packets + sum(call.stalls.values()) for call in code.calls[:-1])
    called = [program.nodes[call.node] for call in code.calls if call.node is not None]
    assert {"embedding", "scaled_dot_product_attention", "layer_norm_4"} <= {node.name for node in called}
    for call in code.calls[1:-1]:
        made = code.functions[call.function]
        shown = [line for line in made.listing.splitlines() if line.startswith(" ")]
        assert 0 < len(shown) == min(made.packets, 400)


# ------------------------------------------------------------------------------------------------------- interfaces
def test_report_of_a_recording(tmp_path: Path) -> None:
    x = torch.randn(64, 64, device="atalla")
    with Recording() as recording:
        (x @ x).relu()
    made = torch_atalla.report(recording, tmp_path / "run.html")
    assert isinstance(made.document, Document)
    assert [span.name for span in made.document.timeline.spans] == ["gemm", "pointwise.relu"]
    assert made.document.program is None and made.document.losses
    assert (tmp_path / "run.html").read_text() == made.html()
    with pytest.raises(ValueError, match="expected neither inputs nor method"):
        report(recording, method="forward")
    with Recording() as nothing:
        pass
    with pytest.raises(ValueError, match="found work of: none"):
        report(nothing)


def test_report_with_given_inputs_and_unknown_method(bert: Path) -> None:
    made = report(bert, inputs=[torch.ones(2, 12, dtype=torch.long), torch.ones(2, 12, dtype=torch.long)])
    assert isinstance(made.document, Document) and made.document.timeline.cycles > 0
    with pytest.raises(KeyError, match="no method 'backward'; the program has 'forward'"):
        report(bert, method="backward")


def test_page_is_self_contained_and_small(document: Document) -> None:
    page = Report(document).html()
    assert "http:" not in page and "https:" not in page and 'rel="stylesheet"' not in page
    assert len(page) < 300_000


def test_command(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(bert), "-o", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert main(["report", str(tmp_path / "absent.atl")]) == 1
    assert "absent.atl: no such file; expected a loadable" in capsys.readouterr().err
