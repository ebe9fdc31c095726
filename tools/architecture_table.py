# SPDX-License-Identifier: BSD-3-Clause
"""Saves all architectures of transformers, in small, as loadables, and compares them with the CPU.

    python tools/architecture_table.py [--only REGEX] [--again REGEX] [--write]

Results are kept in build/architectures; a run continues where the last one ended. --write puts the table into
docs/reference/architectures.md. The exit status is 1 when an exported architecture does not match the CPU.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import random
import re
import resource
import signal
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [str(ROOT), *(p for p in sys.path if Path(p or ".").resolve() != ROOT / "tools")]

from tools.architectures.measure import Result, as_dict, measure  # noqa: E402
from tools.architectures.page import page  # noqa: E402
from tools.architectures.registry import model_types  # noqa: E402
from tools.comparison import options, parsed  # noqa: E402
from torch_atalla import chip  # noqa: E402

IMPORTED = (
    "torch_atalla.compiler.file.save", "transformers.exporters.exporter_dynamo", "transformers.generation.utils",
    "transformers.modeling_layers", "transformers.modeling_utils", "transformers.models.auto.modeling_auto",
    "transformers.masking_utils", "transformers.processing_utils",
)  # fmt: skip

PAGE = ROOT / "docs/reference/architectures.md"
KEPT = ROOT / "build/architectures"
PATIENCE = 10  # times of the limit, which counts the processor's time, that a process may last


def read(path: Path) -> Result:
    return Result(**json.loads(path.read_text()))


def load() -> dict[str, Result]:
    return {path.stem: read(path) for path in sorted(KEPT.glob("*.json"))}


def is_complete(result: Result | None) -> bool:
    """Whether a run of an architecture came to its end."""
    return result is not None and (result.right or bool(result.reason))


def is_asked_again(result: Result, again: str | None) -> bool:
    return again is not None and re.search(again, f"{result.stage} {result.reason}") is not None


def store(result: Result) -> None:
    path = KEPT / f"{result.model_type}.json"
    path.with_suffix(".new").write_text(json.dumps(as_dict(result), indent=1))
    path.with_suffix(".new").replace(path)


def child(model_type: str, limit: int) -> int:
    """A process that has everything imported already, and measures one architecture. Its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        gc.disable()  # a process is short
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        quiet = os.open(KEPT / f"{model_type}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        result = Result(model_type)
        store(result)
        store(measure(model_type, result, lambda: store(result)))
    finally:
        os._exit(0)


def run(todo: list[str], jobs: int, limit: int) -> None:
    running: dict[int, tuple[str, float]] = {}
    done, began = 0, time.time()
    while jobs and (todo or running):
        while todo and len(running) < jobs:
            name = todo.pop(0)
            if (path := KEPT / f"{name}.json").exists() and path.stat().st_mtime > began and is_complete(read(path)):
                continue  # measured by another run meanwhile
            running[child(name, limit)] = name, time.monotonic()
        pid, status = os.waitpid(-1, os.WNOHANG)
        for late, (_, since) in running.items():
            if time.monotonic() - since > PATIENCE * limit:
                os.kill(late, signal.SIGKILL)
        if not pid:
            time.sleep(0.05)
            continue
        name, _ = running.pop(pid)
        result = read(KEPT / f"{name}.json")
        if os.WIFSIGNALED(status):
            killed = os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU)
            why = f"more than {limit} s" if killed else f"signal {os.WTERMSIG(status)}"
            result.reason = f"{result.stage}: {why}"
            result.stage = "time-out" if killed else "crash"
            store(result)
        done += 1
        outcome = f"{result.stage} {result.seconds:.1f}s {result.error:.1e}"
        print(f"{done} {name}: {outcome} {result.reason[:150]!r}", flush=True)


def prepare() -> None:
    """Imports what all processes need, and touches no device: a fork inherits no threads."""
    for module in IMPORTED:
        importlib.import_module(module)
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    chip.set_num_threads(1)
    torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),)).run_decompositions()
    gc.freeze()


def main(argv: list[str] | None = None) -> int:
    parser = options(__doc__, PAGE)
    parser.add_argument("--again", default=None, metavar="REGEX", help="also those whose step and reason match")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time; 0 only counts what is kept")
    parser.add_argument("--limit", type=int, default=90, help="seconds of the processor for each")
    args = parsed(parser, argv)
    KEPT.mkdir(parents=True, exist_ok=True)
    known = load()
    names = [name for name in model_types() if re.search(args.only, name)]
    todo = [name for name in names if not is_complete(known.get(name)) or is_asked_again(known[name], args.again)]
    if args.jobs:
        prepare()
    random.Random(0).shuffle(todo)  # so that a part of a run has architectures of all kinds
    run(todo, args.jobs, args.limit)
    results = [result for name, result in load().items() if name in model_types() and is_complete(result)]
    exported = [result for result in results if result.exported]
    print(f"{sum(result.right for result in exported)} of {len(exported)} exported architectures match the CPU")
    if args.write:
        PAGE.write_text(page(results, len(model_types())))
    return int(not all(result.right for result in exported))


if __name__ == "__main__":
    sys.exit(main())
