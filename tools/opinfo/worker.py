# SPDX-License-Identifier: BSD-3-Clause
"""Runs one OpInfo's cases in a forked child. A crash or a hang costs one row; the other cases run in a new child."""

from __future__ import annotations

import re
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from torch_atalla.testing import check_gradients, check_sample

from .selection import Case

# What the fallback, upstream's placeholders and the copy say of what the device has not.
MISSING = re.compile(
    r"operator '(?P<op>[^']+)'|(?P<hook>\w+_overrideable): |(?P<copy>copy_ from \w+ to \w+) is not supp"
)


@dataclass(frozen=True)
class Row:
    op: str
    dtype: str
    direction: str
    status: str  # native, empty (no samples), fallback, mismatch, error, crash, timeout
    reason: str
    samples: int
    seconds: float

    @property
    def case(self) -> Case:
        return Case(self.op, self.dtype, self.direction)

    @property
    def broken(self) -> bool:
        """Wrong rather than missing."""
        return self.status in ("mismatch", "error", "crash", "timeout")


def where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).strip()[:300]} ({Path(last.filename).name}:{last.lineno})"


def run_case(op: Any, case: Case, fallback: Any) -> Row:
    """All samples of the case, up to the first that is not native or not right."""
    dtype = getattr(torch, case.dtype)
    backward = case.direction == "backward"
    torch.manual_seed(0)
    status, reason, count, start = "native", "", 0, time.monotonic()
    try:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=backward):
            if backward:
                count += check_gradients(op, sample, dtype, fallback=fallback)
            else:
                check_sample(op, sample, dtype, fallback=fallback)
                count += 1
    except AssertionError as error:
        status, reason = "mismatch", str(error).strip()[:300]
    except Exception as error:  # noqa: BLE001  (every failure is a row of the report)
        missing = MISSING.search(str(error)) if isinstance(error, NotImplementedError) else None
        status, reason = ("fallback", missing[missing.lastgroup or 0]) if missing else ("error", where(error))
    if count == 0 and status == "native":
        status, reason = "empty", "no samples"
    reason = " ".join(reason.split())
    return Row(case.op, case.dtype, case.direction, status, reason, count, round(time.monotonic() - start, 3))


def child(op: Any, cases: list[Case], fallback: Any, send: Connection) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for case in cases:
        send.send(run_case(op, case, fallback))


def exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


def run_isolated(
    op: Any, cases: list[Case], fallback: str = "error", timeout: float = 300.0, target: Callable = child
) -> list[Row]:
    """A row for each case, in order."""
    context = get_context("fork")
    rows: list[Row] = []
    while len(rows) < len(cases):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=target, args=(op, cases[len(rows) :], fallback, send))
        process.start()
        send.close()
        status, reason = "", ""
        while len(rows) < len(cases) and not status:
            if not receive.poll(timeout):
                status, reason = "timeout", f"no result in {timeout:.0f} s"
                process.kill()
                break
            try:
                rows.append(receive.recv())
            except EOFError:
                status = "crash"
        process.join()
        receive.close()
        if status:
            at = cases[len(rows)]
            rows.append(Row(at.op, at.dtype, at.direction, status, reason or exit_text(process.exitcode), 0, 0.0))
    return rows
