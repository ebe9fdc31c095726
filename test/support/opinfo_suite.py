# SPDX-License-Identifier: BSD-3-Clause
"""Shared code of the OpInfo suites: native OpInfos with the dtypes of the record, the base class, expected failures.

The record (opinfo_native.json) is written by tools/opinfo_sweep.py --write. It may grow and must not shrink. It is made
with the lowest tested version of torch (COMPLETE). With another one, its rows hold for OpInfos of the same name, and
further OpInfos and dtypes of that version have no row.
"""

from __future__ import annotations

import collections
import itertools
import sys
import unittest
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.testing._internal.opinfo.core import DecorateInfo
from torch_version import LOWEST
from xfails import NOT_APPLICABLE, XFAILS

import torch_atalla
from torch_atalla.testing import Native, Record, op_name

RECORD = Record.load(Path(__file__).parents[1] / "data/opinfo_native.json")
COMPLETE = LOWEST
OPS: dict[str, Any] = {op_name(op): op for op in op_db}
ABSENT = set() if COMPLETE else RECORD.ops.keys() - OPS.keys()
for name in ABSENT:
    del RECORD.ops[name]
for name, op in OPS.items():
    op.dtypesIf["atalla"] = RECORD.ops.get(name, Native()).dtypes()

native_ops = [op for name, op in OPS.items() if op.dtypesIf["atalla"]]
float_ops = [op for op in native_ops if torch.float32 in op.dtypesIf["atalla"]]


def applicable(ops: list[Any], suite: str, test: str) -> list[Any]:
    """Without the OpInfos that the question makes no sense for."""
    return [op for op in ops if op_name(op) not in NOT_APPLICABLE.get((suite, test), {})]


def expect_failures() -> None:
    for (suite, test), table in XFAILS.items():
        for key in table:
            name, _, dtype = key.partition(" ")
            dtypes = (getattr(torch, dtype),) if dtype else None
            decorator = DecorateInfo(unittest.expectedFailure, suite, test, dtypes=dtypes)
            OPS[name].decorators = (*OPS[name].decorators, decorator)


expect_failures()


def current_test() -> Callable[..., Any] | None:
    """The test method that runs. torch's own asks inspect.stack(), which reads the source of every frame: most of the
    time that an OpInfo test took."""
    frame = sys._getframe(1)
    while frame is not None:
        case = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if isinstance(case, unittest.TestCase):
            return getattr(getattr(case, case._testMethodName), "__func__", None)
        frame = frame.f_back
    return None


common_utils.extract_test_fn = core.extract_test_fn = current_test


def samples(
    op: Any, dtype: torch.dtype, limit: int | None = None, kind: str = "sample", **kwargs: Any
) -> Iterator[Any]:
    """Samples (or "reference" inputs) on the CPU: the sweep's. torch's own seeds depend on the test's name."""
    found = iter(getattr(op, f"{kind}_inputs")("cpu", dtype, set_seed=False, **kwargs))
    while limit is None or limit > 0:
        common_utils.set_rng_seed(common_utils.SEED)
        try:
            yield next(found)
        except StopIteration:
            return
        limit = None if limit is None else limit - 1


def drawn_samples(op: Any, dtype: torch.dtype, question: str, most: int | None = None, **kwargs: Any) -> Iterator[Any]:
    """The first sample, and one of the next that a hash of op, dtype and question draws, so that questions and dtypes
    share the samples of an op. With upstream's switch for slow tests, the first `most` of them (default: all)."""
    if common_utils.TEST_WITH_SLOW:
        yield from samples(op, dtype, most, **kwargs)
        return
    chosen = 1 + zlib.crc32(f"{op_name(op)} {dtype} {question}".encode()) % ((most or 8) - 1)
    found = samples(op, dtype, chosen + 1, **kwargs)
    yield from itertools.islice(found, 1)
    yield from collections.deque(found, maxlen=1)  # the drawn one, or the last one if there are fewer


def raised(call: Callable[[], Any]) -> Exception | None:
    """What the call raises, or None."""
    try:
        call()
    except Exception as error:  # noqa: BLE001
        return error
    return None


def is_forbidden_fallback(error: Exception | None) -> bool:
    return isinstance(error, NotImplementedError) and "operator 'aten::" in str(error)


def answered(call: Callable[[], Any]) -> Exception | None:
    """What the call raises where the fallback is allowed: many checks stand in upstream's CPU kernels."""
    error = raised(call)
    if is_forbidden_fallback(error):
        with torch_atalla.fallback.mode("silent"):
            return raised(call)
    return error


def host(value: Any) -> Any:
    """Tensors of a structure on the CPU, detached."""
    return torch.utils._pytree.tree_map(lambda x: x.detach().cpu() if isinstance(x, torch.Tensor) else x, value)


class DeviceTestCase(common_utils.TestCase):
    """Forbids the fallback, whatever runs the tests."""

    def setUp(self):
        super().setUp()
        self.guard = torch_atalla.fallback.mode("error")
        self.guard.__enter__()

    def tearDown(self):
        self.guard.__exit__()
        super().tearDown()


def collected(namespace: dict[str, Any], suite: str, test: str = "test_") -> int:
    """Number of the instantiated tests of a suite. A device that is registered too late yields none and a green run."""
    classes = [value for key, value in namespace.items() if key in (f"{suite}PRIVATEUSE1", f"{suite}ATALLA")]
    return sum(1 for cls in classes for name in dir(cls) if name.startswith(test))


def stale_rows(namespace: dict[str, Any], suite: str) -> list[str]:
    """Rows of xfails.py that belong to no test of the suite."""
    stale = []
    classes = [value for key, value in namespace.items() if key in (f"{suite}PRIVATEUSE1", f"{suite}ATALLA")]
    tests = [name for cls in classes for name in dir(cls)]
    for (cls, test), table in [*XFAILS.items(), *NOT_APPLICABLE.items()]:
        if cls == suite and not any(name.startswith(test) for name in tests):
            stale.append(f"{cls}.{test}")
        if cls == suite:
            stale += [key for key in table if key.partition(" ")[0] not in OPS]
    return stale
