# SPDX-License-Identifier: BSD-3-Clause
"""Child processes that run cases, JSON lines in and JSON lines out: a crash or a hang costs one case.

`Worker` and `run` are the parent's side. `start_worker` is the loop of the child, a module that is run.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CASES_PER_PROCESS = 400  # then a fresh one, so that what earlier cases left behind cannot hide or make a failure
Answer = dict[str, Any]
Handler = Callable[[dict[str, Any]], Answer]
TIME_LIMIT = "time limit"


def start_worker(prepare: Callable[[], Handler]) -> None:
    """Answer requests until the input ends. `prepare` imports what cases need and returns the function of a request."""
    channel = os.fdopen(os.dup(1), "w")  # what libraries print goes elsewhere
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    import torch

    import torch_atalla

    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    handle = prepare()
    gc.set_threshold(50_000, 20, 100)

    def answer(data: dict[str, Any]) -> None:
        channel.write(json.dumps(data) + "\n")
        channel.flush()

    answer({"ready": os.getpid()})
    for number, line in enumerate(sys.stdin):
        if number % 10 == 0:  # a capture collects garbage: it shall not walk all of PyTorch
            gc.collect()
            gc.freeze()
        answer(handle(json.loads(line)))


def ended(category: str, text: str) -> Answer:
    """The answer for a case whose process ended."""
    return {"problems": [{"check": "process", "category": category, "text": text}]}


class Worker:
    """One child process. `begin` gives it a request, `finish` its answer.

    `module` runs the cases; `environment` has further variables of the process, which runs at most `most` cases.
    """

    def __init__(
        self, log: Path, module: str, environment: Mapping[str, str] | None = None, most: int = CASES_PER_PROCESS
    ):
        self.log = log
        self.module = module
        self.environment = dict(environment or {})
        self.most = most
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

    def _read(self) -> Answer | None:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def begin(self, request: dict[str, Any], ticket: Any = None) -> None:
        if self.process is not None and (self.process.poll() is not None or self.count >= self.most):
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

    def finish(self) -> Answer:
        """The answer; a problem of the category "crash" if the process ended instead."""
        self.request = None
        answer = self._read()
        if answer is not None:
            return answer
        assert self.process is not None
        status = self.process.wait()
        self.process = None
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return ended(f"crash: {name}", "the process ended")

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

    def stop_late(self) -> Answer:
        self.close()
        self.request = None
        return ended(TIME_LIMIT, "the case took too long")

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def call(self, request: dict[str, Any], limit: float) -> Answer:
        """A request whose answer is waited for."""
        self.begin(request)
        assert self.process is not None and self.process.stdout is not None
        selector = selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        while not (ready := selector.select(1.0)) and not self.is_late(limit):
            pass
        selector.close()
        return self.finish() if ready else self.stop_late()


def run(
    cases: Callable[[int], tuple[Any, dict[str, Any]]],
    numbers: Iterable[int],
    take: Callable[[int, Any, Answer], None],
    *,
    workers: Sequence[Worker],
    limit: float,
    until: float | None = None,
) -> float:
    """Evaluate `cases(number)`, a case with the request for it, for each number in turn, and give `take(number, case,
    answer)` the answers. limit: seconds of the processor that a case may take. until: seconds after which no further
    one begins. An interrupt has the same effect at once. Return the seconds that it took."""
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
                number, case = worker.ticket
                take(number, case, answer)
    finally:
        signal.signal(signal.SIGINT, before)
        for worker in workers:
            worker.close()
    return time.monotonic() - start
