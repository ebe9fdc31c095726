# SPDX-License-Identifier: BSD-3-Clause
"""Registers the device before any module of torch.testing._internal is imported: its list of device types is built
once, at import, and a device that comes too late gives suites without a single test."""

import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "privateuse1")
sys.path.insert(0, str(Path(__file__).parent))

import pytest  # noqa: E402
import torch  # noqa: E402
from xfails import XFAILED_TESTS  # noqa: E402

import torch_atalla  # noqa: E402

if "PYTEST_XDIST_WORKER" in os.environ:  # a worker a core: more threads would only wait for each other
    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.nodeid.rpartition("/")[2]
        for prefix, reason in XFAILED_TESTS.items():
            if name.startswith(prefix):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(autouse=True)
def fallback_forbidden():
    """Every test runs with the fallback forbidden, unless it is about the fallback and says so itself."""
    with torch_atalla.fallback.mode("error"):
        yield
