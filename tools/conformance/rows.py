# SPDX-License-Identifier: BSD-3-Clause
"""What the plugins of the runs share: a limit on a test's time, and a row (JSON) for each test that ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from typing import NoReturn

import pytest

import torch_atalla

SECONDS = 300
EXPECTED_FAILURE = "upstream expects the failure"


def out_of_time(*_: object) -> NoReturn:
    raise TimeoutError(f"the test took longer than {SECONDS} s")


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Forbid the fallback inside, and raise TimeoutError after SECONDS."""
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(SECONDS)
    try:
        with torch_atalla.fallback.mode("error"):
            yield
    finally:
        signal.alarm(0)


def write_row(test: str, report: pytest.TestReport) -> None:
    """Append (test, outcome, text) to the file that ATALLA_CONFORMANCE_ROWS names, once for each test of a run."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.outcome == "passed"):
        return
    text = ""
    if report.outcome == "skipped":
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if hasattr(report, "wasxfail"):
            text = EXPECTED_FAILURE
    elif report.outcome == "failed":
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
    with open(os.environ["ATALLA_CONFORMANCE_ROWS"], "a") as file:
        file.write(json.dumps({"test": test, "outcome": report.outcome, "text": text}) + "\n")
