# SPDX-License-Identifier: BSD-3-Clause
"""A child process that evaluates programs."""

from __future__ import annotations

from typing import Any

from ..runner import Handler, start_worker


def prepare() -> Handler:
    from . import transfers
    from .evaluate import evaluate
    from .loadable_checks import COVERAGE
    from .program import Case
    from .quicken import quicken

    quicken()

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if "transfers" in request:
            return {"problems": transfers.check(request["transfers"])}
        outcome = evaluate(Case(request["source"]), request["checks"])
        coverage = {name: dict(counts) for name, counts in vars(COVERAGE).items()}
        for name in coverage:
            getattr(COVERAGE, name).clear()
        return outcome.to_json() | {"coverage": coverage}

    return handle


if __name__ == "__main__":
    start_worker(prepare)
