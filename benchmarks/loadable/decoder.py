# SPDX-License-Identifier: BSD-3-Clause
"""Greedy decoding of a Llama-like model with a KV cache: tokens a second in eager PyTorch, the peers and a loadable.

The loadable has two methods, prefill and decode, which share weights and keep the cache between calls; eager PyTorch
keeps it in buffers of the module. The peers have a file for each method, with the cache as arguments and results.
Each runtime runs in a process of its own; they take turns, a request at a time, and must choose the same tokens.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..decoder.sizes import LAYERS, LENGTH, PROMPT, STEPS, VOCABULARY, WIDTH
from ..harness import Spread
from . import processes
from .loading import Loading
from .loading import measure as measure_loading
from .processes import Worker

WORKER = Path(__file__).resolve().parents[1] / "decoder" / "worker.py"
SETTLE_SECONDS = 0.02  # worker threads of the runtime before, which wait in a busy loop, go to sleep


@dataclass
class Decoding:
    """One runtime. Seconds, and tokens a second of the steps behind the first, by number of threads."""

    save_seconds: float = 0.0
    file_bytes: int = 0
    load_seconds: float = 0.0
    prefill: dict[int, Spread] = field(default_factory=dict)
    rate: dict[int, Spread] = field(default_factory=dict)
    same_tokens: bool = True
    problem: str = ""
    simulated: list[str] = field(default_factory=list)  # a line per method


def measure(
    runtimes: list[str], threads: list[int], peers: Path, rounds: int, load_rounds: int
) -> tuple[dict[str, Decoding], Loading | None]:
    """All runtimes beside eager PyTorch, which is always among them."""
    from torch_atalla.loadable.description import describe
    from torch_atalla.loadable.report import LoadableReport

    from ..decoder import model

    found, loading = {}, None
    with tempfile.TemporaryDirectory(prefix="decoder-") as path:
        folder = Path(path)
        model.make(folder)
        for runtime in ["eager", *(name for name in runtimes if name != "eager")]:
            answer = processes.save(WORKER, runtime, folder, peers)
            problem = answer.get("problem", "")
            found[runtime] = Decoding(answer.get("seconds", 0.0), answer.get("bytes", 0), problem=problem)
        if "atalla" in found and not found["atalla"].problem:
            loading = measure_loading(folder / "exact.atl", load_rounds)
            found["atalla"].simulated = LoadableReport.of_file(describe(str(folder / "exact.atl"))).estimates()
        for number in threads:
            workers = {}
            for runtime, decoding in found.items():
                if decoding.problem:
                    continue
                worker = Worker(WORKER, "decode", runtime, folder, number, peers)
                decoding.problem = worker.wait()  # one process at a time: nobody disturbs the load
                if decoding.problem:
                    worker.close()
                    continue
                workers[runtime] = worker
                decoding.load_seconds = decoding.load_seconds or worker.about["load"]
            take_turns(workers, found, number, rounds)
            for worker in workers.values():
                worker.close()
    return found, loading


def take_turns(workers: dict[str, Worker], found: dict[str, Decoding], threads: int, rounds: int) -> None:
    answers: dict[str, list[dict[str, Any]]] = {runtime: [] for runtime in workers}
    for number in range(-1, rounds):  # the first one warms up
        for runtime in workers if number % 2 == 0 else reversed(workers):
            if found[runtime].problem:
                continue
            time.sleep(SETTLE_SECONDS)
            try:
                answers[runtime].append(workers[runtime].ask())
            except (RuntimeError, OSError) as error:
                found[runtime].problem = f"run: {error}"
    expected = answers["eager"][0]["tokens"]
    for runtime, given in answers.items():
        decoding = found[runtime]
        if decoding.problem:
            continue
        decoding.same_tokens &= all(answer["tokens"] == expected for answer in given)
        decoding.prefill[threads] = Spread.of([answer["prefill"] for answer in given[1:]])
        decoding.rate[threads] = Spread.of([(STEPS - 1) / answer["steps"] for answer in given[1:]])


def table(found: dict[str, Decoding]) -> str:
    threads = sorted(found["eager"].rate)
    head = ["runtime", "save s", "file MB", "load ms"]
    for number in threads:
        plural = "thread" if number == 1 else "threads"
        head += [f"prefill ms, {number} {plural}", f"tokens/s, {number} {plural}", "over eager"]
    lines = [
        "### llama",
        "",
        f"A Llama-like decoder, {LAYERS} layers of width {WIDTH}, vocabulary {VOCABULARY:,}, cache of {LENGTH}: "
        f"a prompt of {PROMPT} tokens, then {STEPS - 1} steps, greedily. Median (quartiles).",
        "",
        f"| {' | '.join([*head, 'same tokens'])} |",
        "| --- |" + " ---: |" * len(head),
    ]
    for name, x in found.items():
        if x.problem:
            lines.append(f"| {name} | {x.problem.replace('|', '/')} |" + " |" * (len(head) - 1))
            continue
        saved = name != "eager"
        parts = (
            [f"{x.save_seconds:.1f}", f"{x.file_bytes / 1e6:.2f}", f"{x.load_seconds * 1e3:.1f}"] if saved else [""] * 3
        )
        for number in threads:
            rate = x.rate[number]
            parts += [f"{x.prefill[number].median * 1e3:.1f}", f"{rate.median:.0f} ({rate.low:.0f} to {rate.high:.0f})"]
            parts.append(f"{rate.median / found['eager'].rate[number].median:.2f}")
        lines.append(f"| {' | '.join([name, *parts, 'yes' if x.same_tokens else 'no'])} |")
    if "atalla" in found and found["atalla"].simulated:
        lines += ["", f"On the simulated chip, one call of the loadable takes: {'; '.join(found['atalla'].simulated)}."]
    return "\n".join([*lines, ""])
