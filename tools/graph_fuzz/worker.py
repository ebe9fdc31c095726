# SPDX-License-Identifier: BSD-3-Clause
"""A child process that evaluates cases: JSON lines in, JSON lines out. The parent ends it when a case takes too long,
and reads from its end that a case crashed."""

from __future__ import annotations

import faulthandler
import functools
import gc
import json
import os
import sys
import warnings
from typing import Any


def _cache_export_tables() -> None:
    """torch.export collects the table of composite ops for every program; it is the same for all of a process."""
    import torch._export.utils as utils
    import torch.export.exported_program as exported_program

    once = functools.lru_cache(maxsize=1)(utils._collect_all_valid_cia_ops)
    utils._collect_all_valid_cia_ops = once
    exported_program._collect_all_valid_cia_ops = lambda: set(once())


def _quicken_py_impl() -> None:
    """torch.export registers some thousand Python kernels for each program, and OperatorBase.py_impl evaluates the
    annotations of its inner function each time, which takes most of that. The same without annotations."""
    from torch._C import DispatchKey
    from torch._ops import OperatorBase

    general = OperatorBase.py_impl

    def py_impl(self: Any, key: Any) -> Any:
        if not isinstance(key, DispatchKey) or key == DispatchKey.Python or key in self.py_kernels:
            return general(self, key)

        def register(kernel: Any) -> Any:
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return register

    OperatorBase.py_impl = py_impl  # type: ignore[assignment, method-assign]


def _settle_garbage() -> None:
    """Collects once and exempts what is left, so that collections during a case, which a capture starts, do not walk
    all of PyTorch."""
    gc.collect()
    gc.freeze()


def main() -> None:
    channel = os.fdopen(os.dup(1), "w")  # what libraries print goes elsewhere
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    import torch

    import torch_atalla

    from . import transfers
    from .evaluate import evaluate
    from .loadable_checks import COVERAGE
    from .program import Case

    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    _cache_export_tables()
    _quicken_py_impl()
    gc.set_threshold(50_000, 20, 100)

    def answer(data: dict) -> None:
        channel.write(json.dumps(data) + "\n")
        channel.flush()

    answer({"ready": os.getpid()})
    for number, line in enumerate(sys.stdin):
        if number % 10 == 0:
            _settle_garbage()
        request = json.loads(line)
        if "transfers" in request:
            answer({"problems": transfers.check(request["transfers"])})
            continue
        outcome = evaluate(Case(request["source"]), request["checks"])
        coverage = {name: dict(getattr(COVERAGE, name)) for name in ("ops", "passes", "dtypes")}
        for name in coverage:
            getattr(COVERAGE, name).clear()
        answer(outcome.to_json() | {"coverage": coverage})


if __name__ == "__main__":
    main()
