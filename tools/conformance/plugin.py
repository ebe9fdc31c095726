# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin of the runs: the device's tests only, the fallback forbidden, a limit on time, one row per test.

Rows (JSON lines: test, outcome, text) are appended to the file that ATALLA_CONFORMANCE_ROWS names. With
ATALLA_CONFORMANCE_DEVICE=cpu the CPU's tests run instead, of those that ATALLA_CONFORMANCE_ONLY (a file, one name a
line) lists.
"""

from __future__ import annotations

import json
import os
import signal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

import torch_atalla
from tools.conformance.removed_names import restore

SECONDS = 300
DEVICE = os.environ.get("ATALLA_CONFORMANCE_DEVICE", "atalla")
LEFT_OUT = os.environ.get("ATALLA_CONFORMANCE_LEFT_OUT", "").split()  # patterns of tests that must not run
# The first class that is instantiated has the name before its renaming.
SUFFIXES = {"atalla": ("PRIVATEUSE1", "ATALLA"), "cpu": ("CPU",)}[DEVICE]


def name_of(cls: str, function: str) -> str:
    """Return the name of a test without its class's suffix, and with the device's name for the CPU's."""
    suffix = next(suffix for suffix in SUFFIXES if cls.endswith(suffix))
    return f"{cls.removesuffix(suffix)}.{function.replace('_cpu', '_atalla')}"


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    restore()


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    only = os.environ.get("ATALLA_CONFORMANCE_ONLY")
    names = set(Path(only).read_text().split()) if only else None
    found = [item for item in items if item.cls is not None and item.cls.__name__.endswith(SUFFIXES)]
    items[:] = [item for item in found if names is None or name_of(item.cls.__name__, item.name) in names]
    for item in items:
        if any(fnmatchcase(name_of(item.cls.__name__, item.name), pattern) for pattern in LEFT_OUT):
            item.add_marker(pytest.mark.skip(reason="excluded, and does not run"))


def out_of_time(*_: object) -> NoReturn:
    raise TimeoutError(f"the test took longer than {SECONDS} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(SECONDS)
    try:
        with torch_atalla.fallback.mode("error"):
            return (yield)
    finally:
        signal.alarm(0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.outcome == "passed"):
        return
    text = ""
    if report.outcome == "skipped":
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    elif report.outcome == "failed":
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
    *_, cls, function = report.nodeid.split("::")
    row = {"test": name_of(cls, function), "outcome": report.outcome, "text": text}
    with open(os.environ["ATALLA_CONFORMANCE_ROWS"], "a") as file:
        file.write(json.dumps(row) + "\n")
