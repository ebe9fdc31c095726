# SPDX-License-Identifier: BSD-3-Clause
"""The pytest plugin of the runs: Triton's fixtures for the device, and a sample of each parametrised function.

ATALLA_CONFORMANCE_ALL names a file that takes the names of all tests, ATALLA_CONFORMANCE_MOST says how many tests of a
function run at most. Tests of exclusions with `runs = false` do not run.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_atalla
from tools.conformance.rows import limited, write_row
from tools.conformance.suites import load
from tools.conformance.triton.runs import TABLE, sample


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interpreter: tests for Triton's interpreter too")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)


@pytest.fixture
def device() -> str:
    return "atalla"


@pytest.fixture
def fresh_triton_cache(tmp_path: Path) -> Iterator[str]:
    from triton import knobs

    with knobs.cache.scope():
        knobs.cache.dir = str(tmp_path)
        yield str(tmp_path)


@pytest.fixture
def fresh_knobs() -> Iterator[Any]:
    from triton._internal_testing import _fresh_knobs_impl

    fresh, reset = _fresh_knobs_impl()
    try:
        yield fresh()
    finally:
        reset()


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ and config.getoption("numprocesses", None):
        return  # the workers collect
    names = [item.name for item in items]
    everything = Path(os.environ["ATALLA_CONFORMANCE_ALL"])
    own = everything.with_suffix(f".{os.getpid()}")
    own.write_text("\n".join(names))
    own.replace(everything)
    table = load(TABLE)
    left_out = (table.find(items[0].path.name, name) for name in names) if items else ()
    runs = [name for name, row in zip(names, left_out, strict=True) if row is None or row.runs]
    chosen = set(sample(runs, int(os.environ["ATALLA_CONFORMANCE_MOST"])))
    items[:] = [item for item in items if item.name in chosen]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    with limited():
        try:
            result = yield
        except BaseException:
            with contextlib.suppress(RuntimeError):  # a fault of a queued launch belongs to this test too
                torch.accelerator.synchronize()
            raise
        torch.accelerator.synchronize()
        return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    write_row(report.nodeid.partition("::")[2], report)
