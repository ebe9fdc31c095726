# SPDX-License-Identifier: BSD-3-Clause
"""A child process that evaluates cases: JSON lines in, JSON lines out. The parent ends it when a case takes too long,
and reads from its end that a case crashed."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import warnings


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
    from .quicken import quicken

    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    quicken()
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
