# SPDX-License-Identifier: BSD-3-Clause
"""Loadables beside what other ahead-of-time compilers give, on one machine in one run.

    python -m benchmarks.loadable.compare [--quick] [--models mlp ...] [--threads 1 2] [--peers DIR] [--write-docs]

The peers are installed by name from PyPI into a virtual environment of their own (DIR, build/peers by default). Each
runtime runs in a process of its own; all of one model are alive at once and take turns, so that a drift of the
machine's speed meets them all. A runtime that cannot be installed, or cannot save a model, is a cell that says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch

from .. import machine
from ..harness import Spread
from . import decoder, processes
from .loading import Loading
from .loading import measure as measure_loading
from .loading import table as loading_table
from .models import MODELS, make
from .processes import PEERS, ROOT, Worker, install
from .report import tables, write_docs

WORKER = Path(__file__).with_name("worker.py")
OURS = ("atalla", "atalla-fast")
TOLERANCE = 1e-3  # of the largest value: beyond it a result is another one


@dataclass
class Cell:
    """One runtime on one model."""

    save_seconds: float = 0.0
    file_bytes: int = 0
    problem: str = ""
    error: float = 0.0  # largest difference from eager on the CPU, as a part of the largest value
    load: dict[int, float] = field(default_factory=dict)  # by threads: seconds from the imports' end to loaded
    imports: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    peak: dict[int, int] = field(default_factory=dict)
    wall: dict[int, Spread] = field(default_factory=dict)  # seconds a call
    cpu: dict[int, Spread] = field(default_factory=dict)  # of all threads
    ratio: dict[int, Spread] = field(default_factory=dict)  # wall over that of the best peer, round by round


@dataclass
class Row:
    model: str
    parameters: int
    export_seconds: float
    cells: dict[str, Cell]
    core_distances: list[int]  # nanoseconds, before the calls and after those with each number of threads
    loading: Loading | None = None  # of the file that atalla saved


def save(runtime: str, folder: Path, peers: Path) -> Cell:
    answer = processes.save(WORKER, runtime, folder, peers)
    return Cell(answer.get("seconds", 0.0), answer.get("bytes", 0), answer.get("problem", ""))


def export(name: str, folder: Path) -> tuple[int, float, np.ndarray]:
    module, inputs = make(name)
    start = time.perf_counter()
    program = torch.export.export(module, inputs)
    seconds = time.perf_counter() - start
    torch.export.save(program, folder / "model.pt2")
    for i, tensor in enumerate(inputs):
        np.save(folder / f"input-{i}.npy", tensor.numpy())
    with torch.no_grad():
        expected = module(*inputs).numpy()
    bytes_of = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in module.parameters()}
    return sum(bytes_of.values()), seconds, expected


def measure(name: str, runtimes: list[str], numbers: list[int], peers: Path, rounds: int, sample: float) -> Row:
    with tempfile.TemporaryDirectory(prefix="loadables-") as path:
        folder = Path(path)
        parameters, seconds, expected = export(name, folder)
        cells = {runtime: save(runtime, folder, peers) for runtime in runtimes}
        loading = None
        if "atalla" in cells and not cells["atalla"].problem:
            loading = measure_loading(folder / "exact.atl", rounds)
        distance = machine.CoreDistance(folder)
        distances = [distance.nanoseconds()]
        for threads in numbers:
            workers: dict[str, Worker] = {}
            for runtime, cell in cells.items():
                if cell.problem:
                    continue
                workers[runtime] = Worker(WORKER, "run", runtime, folder, threads, peers)
                if threads == numbers[0]:  # the number whose times to load are shown: one process at a time
                    loaded(workers, runtime, cell)
            for runtime, worker in list(workers.items()):
                cell = cells[runtime]
                if not worker.about and not loaded(workers, runtime, cell):
                    continue
                about = worker.about
                cell.imports[threads], cell.load[threads] = about["imports"], about["load"]
                cell.first[threads], cell.peak[threads] = about["first"], about["peak"]
                found = np.load(folder / f"result-{runtime}.npy")
                cell.error = float(np.abs(found - expected).max() / np.abs(expected).max())
                if cell.error > TOLERANCE:
                    cell.problem = f"wrong result: differs by {cell.error:.1e}"
            take_turns(workers, cells, threads, rounds, sample)
            distances.append(distance.nanoseconds())
            for worker in workers.values():
                worker.close()
        known = [found for found in distances if found is not None]
        return Row(name, parameters, seconds, cells, known, loading)


def loaded(workers: dict[str, Worker], runtime: str, cell: Cell) -> bool:
    """Waits for a process; one that fails is no longer among the workers."""
    cell.problem = workers[runtime].wait()
    if cell.problem:
        workers.pop(runtime).close()
    return not cell.problem


def take_turns(workers: dict[str, Worker], cells: dict[str, Cell], threads: int, rounds: int, sample: float) -> None:
    calls, wall, cpu = {}, {runtime: [] for runtime in workers}, {runtime: [] for runtime in workers}
    for runtime, worker in workers.items():
        worker.run(2)
        calls[runtime] = max(1, int(sample / max(worker.run(1)[0], 1e-6)))
    order = list(workers)
    for number in range(rounds):
        for runtime in order if number % 2 == 0 else reversed(order):
            workers[runtime].run(1 + calls[runtime] // 10)
            seconds, busy = workers[runtime].run(calls[runtime])
            wall[runtime].append(seconds)
            cpu[runtime].append(busy)
    right = [runtime for runtime in workers if runtime in PEERS and not cells[runtime].problem]
    for runtime in workers:
        cells[runtime].wall[threads], cells[runtime].cpu[threads] = Spread.of(wall[runtime]), Spread.of(cpu[runtime])
    if not right:
        return
    best = min(right, key=lambda runtime: cells[runtime].wall[threads].median)
    for runtime in workers:
        cells[runtime].ratio[threads] = Spread.of([a / b for a, b in zip(wall[runtime], wall[best])])


def geometric(rows: list[Row], runtime: str, threads: int) -> float | None:
    cells = [row.cells[runtime] for row in rows if runtime in row.cells]
    ratios = [cell.ratio[threads].median for cell in cells if threads in cell.ratio]
    return geometric_mean(ratios) if ratios else None


def about(rows: list[Row], threads: list[int], meanwhile: machine.OtherWork, missing: list[str]) -> dict[str, Any]:
    found = machine.describe() | {"other_work_cpus": round(meanwhile.cpus(), 2), "not installed": missing}
    common = [row for row in rows if row.model in ("mlp", "minilm", "resnet18", "gpt")]
    for number in threads:
        for runtime in OURS:
            mean = geometric(common, runtime, number)
            if mean is not None:
                found[f"{runtime}, {number} thread(s), geometric mean of the ratios"] = round(mean, 3)
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loadable.compare", description=__doc__.split("\n")[0])
    names = [*MODELS, "llama"]
    parser.add_argument("--models", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--runtimes", nargs="+", default=["eager", *PEERS, *OURS], metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers", metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="few short samples")
    parser.add_argument("--no-install", action="store_true", help="take the peers' environment as it is")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--write-docs", action="store_true", help="replace the tables of benchmarks-loadables.md")
    args = parser.parse_args(argv)
    peers = args.peers.resolve()
    missing = [] if args.no_install else install(peers)
    meanwhile = machine.OtherWork()
    rows, loading, decoding = [], {}, {}
    rounds, sample = (5, 0.05) if args.quick else (9, 0.12)
    for name in args.models:
        if name == "llama":
            continue
        rows.append(measure(name, args.runtimes, args.threads, peers, rounds, sample))
        print(tables(rows[-1:], {}), file=sys.stderr, flush=True)
        if rows[-1].loading is not None:
            loading[name] = rows[-1].loading
    sections = [tables(rows, {})]
    if "llama" in args.models:
        decoding, found = decoder.measure(args.runtimes, args.threads, peers, 3 if args.quick else 7, rounds)
        sections.append(decoder.table(decoding))
        loading |= {} if found is None else {"llama": found}
    if loading:
        sections.append(loading_table(loading))
    remarks = about(rows, args.threads, meanwhile, missing)
    sections.append(tables([], remarks))
    text = "\n\n".join(section.strip() for section in sections if section)
    print(text)
    if args.json:
        data = {"about": remarks, "rows": rows, "decoding": decoding, "loading": loading}
        Path(args.json).write_text(json.dumps(data, default=vars, indent=1) + "\n")
    if args.write_docs:
        write_docs(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
