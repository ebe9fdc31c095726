# SPDX-License-Identifier: BSD-3-Clause
"""Registers the device before any module of torch.testing._internal is imported: its list of device types is built
once, at import, and a device that comes too late gives suites without a single test."""

import gc
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "privateuse1")

import pytest  # noqa: E402
import torch  # noqa: E402
from xfails import XFAILED_TESTS  # noqa: E402

import torch_atalla  # noqa: E402
from tools.graph_fuzz.quicken import quicken_export  # noqa: E402

quicken_export()  # a fifth of a second for each exported program

if "PYTEST_XDIST_WORKER" in os.environ:  # a worker a core: more threads would only wait for each other
    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)


# The longest suites of test_ops.py run in these dtypes, and in all others where upstream's switch for slow tests is on:
# one dtype a kernel's arithmetic, so that what is left out differs in loads and stores.
QUICK_DTYPES = {
    "test_values_": (
        "bfloat16",
        "int64",
        "bool",
        "complex64",
        "complex32",
        "uint16",
        "uint64",
        "float8_e4m3fn",
    ),
    "test_gradients_": ("float32", "complex64"),
}
WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW") == "1"


def is_slow(name: str) -> bool:
    for prefix, dtypes in QUICK_DTYPES.items():
        if name.startswith(prefix):
            return not name.endswith(tuple(f"_{dtype}" for dtype in dtypes))
    return False


def pytest_collection_modifyitems(config, items):
    slow = [] if WITH_SLOW else [i for i in items if i.path.name == "test_ops.py" and is_slow(i.name)]
    if slow:
        config.hook.pytest_deselected(items=slow)
        left_out = set(slow)
        items[:] = [i for i in items if i not in left_out]
    for item in items:
        name = item.nodeid.rpartition("/")[2]
        for prefix, reason in XFAILED_TESTS.items():
            if name.startswith(prefix):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def pytest_collection_finish():
    """Tests that look for leaks collect garbage, a second each if that went through all that the tests are made of."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fallback_forbidden():
    """Every test runs with the fallback forbidden, unless it is about the fallback and says so itself."""
    with torch_atalla.fallback.mode("error"):
        yield


@pytest.fixture(autouse=True)
def unseen_launches():
    """What a test has launched, and no clock was read after, takes what the roofline says: a later test that reads one
    would have to generate the code of all that the process has launched."""
    yield
    if torch_atalla.chip.get_clock() == "code" and torch_atalla._C.is_open(0):
        torch_atalla.charges.use_clock("roofline")
        torch_atalla._C.counters(0)
        torch_atalla.charges.use_clock("code")
