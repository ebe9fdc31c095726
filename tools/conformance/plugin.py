# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin of the runs: the device's tests only, the fallback forbidden, a limit on time, one row per test.

Rows (JSON lines: test, outcome, text) are appended to the file that ATALLA_CONFORMANCE_ROWS names. With
ATALLA_CONFORMANCE_DEVICE=cpu the CPU's tests run instead, of those that ATALLA_CONFORMANCE_ONLY (a file, one name a
line) lists. ATALLA_CONFORMANCE_ENDED is a file with the names of tests that do not run, since they have a row.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_atalla
from tools.conformance.removed_names import restore
from tools.conformance.rows import limited, write_row

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
    restore(Path(config.args[0]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    only = os.environ.get("ATALLA_CONFORMANCE_ONLY")
    names = set(Path(only).read_text().split()) if only else None
    found = [item for item in items if item.cls is not None and item.cls.__name__.endswith(SUFFIXES)]
    named = [(item, name_of(item.cls.__name__, item.name)) for item in found]
    ended = set(Path(os.environ["ATALLA_CONFORMANCE_ENDED"]).read_text().split())
    named = [(item, name) for item, name in named if name not in ended]
    named = [(item, name) for item, name in named if names is None or name in names]
    items[:] = [item for item, _ in named]
    for item, name in named:
        if any(fnmatchcase(name, pattern) for pattern in LEFT_OUT):
            item.add_marker(pytest.mark.skip(reason="excluded, and does not run"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    with limited():
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    *_, cls, function = report.nodeid.split("::")
    write_row(name_of(cls, function), report)
