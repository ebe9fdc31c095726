# SPDX-License-Identifier: BSD-3-Clause
"""Hands cases to child processes, and collects what they find: failures by kind, refusals, coverage.

A case is a program of this fuzzer, or a sequence of tools/state_fuzz.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASES_PER_PROCESS = 400  # then a fresh one, so that what earlier cases left behind cannot hide or make a failure


class Worker:
    """One child process. `begin` gives it a request, `finish` its answer.

    `module` runs the cases; `environment` has further variables of the process.
    """

    def __init__(
        self, log: Path, module: str = "tools.graph_fuzz.worker", environment: Mapping[str, str] | None = None
    ):
        self.log = log
        self.module = module
        self.environment = dict(environment or {})
        self.process: subprocess.Popen | None = None
        self.count = 0
        self.started = self.used = 0.0  # seconds of the clock and of the processor when the request began
        self.request: dict[str, Any] | None = None
        self.ticket: Any = None

    def _start(self) -> None:
        environment = os.environ | {"ATALLA_DRAM_BYTES": str(1 << 30), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        environment |= self.environment
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", self.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=environment,
                start_new_session=True,  # an interrupt is the parent's
            )
        self.count = 0
        self._read()

    def _read(self) -> dict[str, Any] | None:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def begin(self, request: dict[str, Any], ticket: Any = None) -> None:
        if self.process is not None and (self.process.poll() is not None or self.count >= CASES_PER_PROCESS):
            self.close()
        if self.process is None:
            self._start()
        assert self.process is not None and self.process.stdin is not None
        self.request, self.ticket, self.started, self.used = request, ticket, time.monotonic(), self._processor_time()
        self.count += 1
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # seen as a crash when the answer is read

    def finish(self) -> dict[str, Any]:
        """The answer; a problem of the category "crash" if the process ended instead."""
        self.request = None
        answer = self._read()
        if answer is not None:
            return answer
        assert self.process is not None
        status = self.process.wait()
        self.process = None
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return {"problems": [{"check": "process", "category": f"crash: {name}", "text": "the process ended"}]}

    def _processor_time(self) -> float:
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_late(self, limit: float) -> bool:
        """Whether the case took `limit` seconds of the processor, which other work on the machine does not lengthen, or
        ten times as many of the clock."""
        passed = time.monotonic() - self.started
        return passed > limit and (self._processor_time() - self.used > limit or passed > 10 * limit)

    def stop_late(self) -> dict[str, Any]:
        self.close()
        self.request = None
        return {"problems": [{"check": "process", "category": "time limit", "text": "the case took too long"}]}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def call(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """A request whose answer is waited for."""
        self.begin(request)
        assert self.process is not None and self.process.stdout is not None
        selector = selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        while not (ready := selector.select(1.0)) and not self.is_late(limit):
            pass
        selector.close()
        return self.finish() if ready else self.stop_late()


@dataclass
class Failure:
    number: int
    program: Any
    problem: dict[str, str]

    @property
    def kind(self) -> str:
        return f"{self.problem['check']}: {self.problem['category']}"


@dataclass
class Results:
    cases: int = 0
    invalid: int = 0
    passed: Counter[str] = field(default_factory=Counter)  # check -> cases
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # check, reason -> cases
    failures: list[Failure] = field(default_factory=list)
    coverage: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, number: int, program: Any, answer: dict[str, Any]) -> None:
        self.cases += 1
        self.invalid += bool(answer.get("invalid"))
        self.passed.update(answer.get("passed", ()))
        self.refused.update(answer.get("refused", {}).items())
        self.failures += [Failure(number, program, problem) for problem in answer["problems"]]
        for name, counts in answer.get("coverage", {}).items():
            self.coverage.setdefault(name, Counter()).update(counts)


def run(
    cases: Callable[[int], tuple[Any, dict[str, Any]]],
    numbers: Sequence[int] | range,
    *,
    workers: Sequence[Worker],
    limit: float,
    until: float | None = None,
    observe: Callable[[Results], None] | None = None,
) -> Results:
    """Evaluates `cases(number)`, a case with the request for it, for each number in turn. limit: seconds of the
    processor that a case may take. until: seconds after which no further one begins. An interrupt has the same effect
    at once."""
    results = Results()
    start, pending = time.monotonic(), iter(numbers)
    selector = selectors.DefaultSelector()
    exhausted, interrupts = False, list[int]()
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        while True:
            for worker in workers:
                if worker.request is not None or exhausted:
                    continue
                late = interrupts or (until is not None and time.monotonic() - start > until)
                number = None if late else next(pending, None)
                if number is None:
                    exhausted = True
                    break
                case, request = cases(number)
                worker.begin(request, (number, case))
                assert worker.process is not None and worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            busy = [worker for worker in workers if worker.request is not None]
            if not busy:
                break
            ready = {key.data: key.fileobj for key, _ in selector.select(1.0)}
            for worker in busy:
                if worker not in ready and not worker.is_late(limit):
                    continue
                assert worker.process is not None and worker.process.stdout is not None
                selector.unregister(worker.process.stdout)
                answer = worker.finish() if worker in ready else worker.stop_late()
                number, program = worker.ticket
                results.add(number, program, answer)
                if observe is not None:
                    observe(results)
    finally:
        signal.signal(signal.SIGINT, before)
        for worker in workers:
            worker.close()
    results.seconds = time.monotonic() - start
    return results
