# SPDX-License-Identifier: BSD-3-Clause
"""All wanted checks of a case, with every exception turned into a problem."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch_atalla

from .checks import check_backward, check_eager, check_graph
from .chip_checks import check_code, check_isa, check_sizes
from .launch_checks import check_launches
from .loadable_checks import check_golden, check_loadable, check_run
from .nested.checks import SYMBOL_CHECKS
from .paths import Context, Problem, Refused
from .program import Case

CHECKS: dict[str, Callable[[Context], list[Problem]]] = {
    "eager": check_eager,
    "backward": check_backward,
    "exact": partial(check_loadable, level="exact"),
    "fast": partial(check_loadable, level="fast"),
    "golden": check_golden,
    "graph": check_graph,
    "run": check_run,
    "launches": check_launches,
    "isa": check_isa,
    "code": check_code,
    "sizes": check_sizes,
    **SYMBOL_CHECKS,
}


@dataclass
class Outcome:
    problems: list[Problem] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # check -> reason
    passed: list[str] = field(default_factory=list)
    invalid: str = ""  # the CPU itself refuses the case

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def evaluate(case: Case, checks: Sequence[str]) -> Outcome:
    outcome = Outcome()
    ctx = Context(case)
    try:
        ctx.cpu  # noqa: B018 (computed here, so that a program that PyTorch refuses is told apart)
    except Exception as error:
        outcome.invalid = f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
        return outcome
    with torch_atalla.fallback.mode("error"):
        for check in checks:
            try:
                problems = CHECKS[check](ctx)
            except Refused as why:
                outcome.refused[check] = str(why)
            except Exception as error:
                outcome.problems.append(Problem(check, *_category(error)))
            else:
                outcome.problems += problems
                if not problems:
                    outcome.passed.append(check)
    return outcome


def _category(error: Exception) -> tuple[str, str]:
    """The exception's type, and the innermost place of this project where it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "torch_atalla" in f.filename]
    ours = [f for f in frames if "site-packages" not in f.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "eager"
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__} in {place}", text
