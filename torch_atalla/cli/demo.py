# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla demo [-o FOLDER]`: a language model on the device, from training to a loadable."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from tqdm import tqdm

from torch_atalla import energy, fallback, telemetry
from torch_atalla.compiler.file.save import save_loadable
from torch_atalla.device import namespace as device
from torch_atalla.loadable import load_loadable
from torch_atalla.reports.report import report

BATCH, TOKENS, WIDTH, HEADS, LAYERS, VOCABULARY = 8, 64, 64, 4, 2, 128
TOLERANCE = 1e-4  # largest difference of a logit between the device and the CPU; both compute in float32
# Of the bfloat16 chip code: mean difference of the logits, relative to their mean magnitude. bfloat16 keeps 8 bits.
CODE_TOLERANCE = 0.05


class ByteModel(nn.Module):
    """A transformer that predicts the next byte of ASCII text: [batch, TOKENS] int64 to [batch, TOKENS, VOCABULARY]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.randn(TOKENS, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", torch.full((TOKENS, TOKENS), float("-inf")).triu(1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embedding(tokens) + self.position, mask=self.mask, is_causal=True))


def read_text() -> torch.Tensor:
    """Return the bytes of the source of Python's argparse: real text that every installation has. [n] int64."""
    data = Path(argparse.__file__).with_suffix(".py").read_text().encode("ascii", "ignore")
    return torch.tensor(list(data), dtype=torch.int64)


def batches(text: torch.Tensor, count: int) -> torch.Tensor:
    """Return random excerpts, [count, BATCH, TOKENS + 1] int64."""
    starts = torch.randint(len(text) - TOKENS, (count, BATCH, 1))
    return text[starts + torch.arange(TOKENS + 1)]


def train(model: nn.Module, text: torch.Tensor, steps: int) -> tuple[float, float]:
    """Train on the device; return the mean loss of the first and of the last tenth of the steps, in nats per byte."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for excerpt in tqdm(batches(text, steps).to("atalla"), desc="train", unit="step", ascii=True):
        loss = nn.functional.cross_entropy(model(excerpt[:, :-1]).flatten(0, 1), excerpt[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    found, tenth = torch.stack(losses).cpu(), max(steps // 10, 1)
    return found[:tenth].mean().item(), found[-tenth:].mean().item()


def measure(function: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, str]:
    """Call a function twice; return the result of the second call, and its launches, cycles and host time in words."""
    function()
    device.synchronize()
    telemetry.reset()
    start = time.perf_counter()
    result = function()
    device.synchronize()
    milliseconds, counters = 1e3 * (time.perf_counter() - start), telemetry.counters()
    source = " (from bfloat16 code)" if counters.assumed_cycles else ""
    work = f"{counters.launches} launches, {counters.cycles:,} cycles{source}, {energy.text(counters.energy.joules)}"
    return result, f"{work}; simulated in {milliseconds:.1f} ms"


class Demo:
    """The stages of the demo. `lines` is the summary; `failed` counts results that are not what they should be."""

    def __init__(self, folder: Path, steps: int, chip_code: bool) -> None:
        self.folder, self.steps, self.with_chip_code = folder, steps, chip_code
        self.path, self.code_path = folder / "demo.atl", folder / "demo_code.atl"
        self.lines: list[str] = []
        self.failed = 0
        torch.manual_seed(0)
        self.model, self.text = ByteModel(), read_text()
        self.tokens = batches(self.text, 1)[0, :, :-1].clone()

    def add(self, name: str, text: str, good: bool | None = None) -> None:
        self.failed += good is False
        self.lines.append(f"{name:<14}{text}" + ("" if good is None else f": {'ok' if good else 'FAILED'}"))

    def train(self) -> None:
        parameters = sum(p.numel() for p in self.model.parameters())
        self.add("device", f"{device.get_device_name()}, simulated; torch {torch.__version__}")
        text = f"transformer, {LAYERS} layers, {parameters:,} parameters, float32; predicts the next byte of text"
        self.add("model", text)
        start = time.perf_counter()
        first, last = train(self.model.to("atalla").train(), self.text, self.steps)
        seconds = time.perf_counter() - start
        self.add(
            "training", f"{self.steps} steps in {seconds:.1f} s, loss from {first:.2f} to {last:.2f}", last < first
        )
        self.model.eval().requires_grad_(False)

    def eager(self) -> None:
        self.on_device = self.tokens.to("atalla")
        self.result, text = measure(lambda: self.model(self.on_device))
        self.add("eager mode", f"{text}; one forward pass of {BATCH} x {TOKENS} bytes")

    def compiled(self) -> None:
        model = torch.compile(self.model)
        result, text = measure(lambda: model(self.on_device))
        self.add("torch.compile", f"{text}; the bits of eager mode", torch.equal(result, self.result))

    def export(self) -> None:
        self.expected = self.model.cpu()(self.tokens)
        self.exported = torch.export.export(self.model, (self.tokens,))
        self.report = save_loadable(self.exported, self.path, fallback="error")

    def loadable(self) -> None:
        program = load_loadable(self.path)
        result, text = measure(lambda: program(self.on_device))
        self.add("loadable", f"{text}; the bits of eager mode", torch.equal(result, self.result))
        text = f"{self.report.native_ops} of {self.report.ops} ops of the loadable; {fallback.total()} calls on the CPU"
        self.add("native", text, self.report.native_ops == self.report.ops and fallback.total() == 0)
        difference = (self.result.cpu() - self.expected).abs().max().item()
        self.add("against CPU", f"largest difference {difference:.1e} (at most {TOLERANCE:g})", difference <= TOLERANCE)

    def chip_code(self) -> None:
        save_loadable(self.exported, self.code_path, engine="isa", convert="bfloat16")
        program = load_loadable(self.code_path, engine="isa")
        result = program(self.on_device).float()
        difference = ((result - self.result).abs().mean() / self.result.abs().mean()).item()
        text = f"{program.stats.instructions:,} instructions, {program.stats.cycles:,} cycles executed, "
        text += f"{energy.text(program.stats.energy.joules)}; bfloat16, "
        text += f"mean difference {difference:.1%}"
        self.add("chip code", f"{text} (at most {CODE_TOLERANCE:.0%})", difference <= CODE_TOLERANCE)

    def write_report(self) -> None:
        path = self.folder / "report.html"
        report(self.code_path if self.with_chip_code else self.path, path, inputs=(self.tokens,))
        self.add("report", f"open in a browser: {path}")

    def run(self) -> None:
        self.train()
        stages = {
            "run in eager mode": self.eager,
            "torch.compile": self.compiled,
            "export and save a loadable": self.export,
            "run the loadable": self.loadable,
            **({"generate and run chip code": self.chip_code} if self.with_chip_code else {}),
            "write the report": self.write_report,
        }
        with tqdm(stages.items(), unit="stage", ascii=True) as bar, torch.no_grad():
            for name, stage in bar:
                bar.set_description(name)
                stage()


def main(argv: list[str]) -> int:
    """Run the demo and print its summary. Return 1 if a result is not what it should be."""
    parser = argparse.ArgumentParser(prog="python -m torch_atalla demo", description="A language model on the device.")
    parser.add_argument("-o", "--output", type=Path, default=Path("atalla_demo"), help="folder for the files it writes")
    parser.add_argument("--steps", type=int, default=100, help="training steps (default: 100)")
    parser.add_argument("--no-chip-code", action="store_true", help="leave out the slowest stage")
    args = parser.parse_args(argv)
    if args.steps < 1:
        parser.error(f"--steps: expected at least 1, got {args.steps}")
    args.output.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")  # torch.export copying its own trees
    demo = Demo(args.output, args.steps, not args.no_chip_code)
    fallback.reset()
    with fallback.mode("error"):
        demo.run()
    print("\n".join(demo.lines))
    return int(demo.failed > 0)
