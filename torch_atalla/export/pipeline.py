# SPDX-License-Identifier: BSD-3-Clause
"""All stages in order, up to the file. Each stage's result is kept and prints, so that every step can be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .capture import Captured, capture
from .errors import ExportError, UnsupportedOpsError
from .ir import LinearProgram
from .linearize import linearize
from .partition import Partition, partition
from .passes import PassResult, run_passes
from .plan import MemoryPlan, plan_memory
from .support import SupportTable, support_table
from .verify_plan import verify_plan


@dataclass
class Compiled:
    captured: Captured  # after the passes
    passes: list[PassResult]
    partition: Partition
    program: LinearProgram
    plan: MemoryPlan

    def __str__(self) -> str:
        sections = {
            "graph": self.captured,
            "passes": "\n".join(map(str, self.passes)),
            "segments": self.partition,
            "linear program": self.program,
            "memory plan": self.plan,
        }
        return "\n\n".join(f"== {title}\n{body}" for title, body in sections.items())


def compile_program(
    program: torch.export.ExportedProgram | torch.nn.Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    fallback: str = "cpu",
    fold: str = "exact",
    epilogue: bool = False,
    support: SupportTable | None = None,
) -> Compiled:
    """Captures, transforms, partitions, lowers and plans.

    fallback: "cpu" runs nodes without a kernel through torch on the host; "error" raises UnsupportedOpsError, which
    lists them all. fold, epilogue: see passes.run_passes. support: instead of the table of this build.
    """
    if fallback not in ("cpu", "error"):
        raise ExportError(f'fallback: expected "cpu" or "error", got {fallback!r}')
    if fold not in ("exact", "all", "none"):
        raise ExportError(f'fold: expected "exact", "all" or "none", got {fold!r}')
    table = support_table() if support is None else support
    captured = capture(program, args, kwargs, table)
    passes = run_passes(captured, fold=fold, epilogue=epilogue)
    parts = partition(captured, table)
    if parts.unsupported and fallback == "error":
        raise UnsupportedOpsError(parts.unsupported)
    linear = linearize(captured, parts, table)
    plan = plan_memory(linear)
    verify_plan(linear, plan)
    return Compiled(captured, passes, parts, linear, plan)
