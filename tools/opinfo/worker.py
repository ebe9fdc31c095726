# SPDX-License-Identifier: BSD-3-Clause
"""A child process that runs cases of OpInfos."""

from __future__ import annotations

import re
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tools.runner import TIME_LIMIT, Handler, start_worker
from torch_atalla.testing import check_gradients, check_sample

from .selection import Case, by_name

# What the fallback, upstream's placeholders and the copy say of what the device has not.
MISSING = re.compile(
    r"operator '(?P<op>[^']+)'|(?P<hook>\w+_overrideable): |(?P<copy>copy_ from \w+ to \w+) is not supp"
)


@dataclass(frozen=True)
class Row:
    op: str
    dtype: str
    direction: str
    status: str  # native, empty (no samples), fallback, mismatch, error, crash, timeout
    reason: str
    samples: int
    seconds: float

    @property
    def case(self) -> Case:
        return Case(self.op, self.dtype, self.direction)

    @property
    def broken(self) -> bool:
        """Wrong rather than missing."""
        return self.status in ("mismatch", "error", "crash", "timeout")


def where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).strip()[:300]} ({Path(last.filename).name}:{last.lineno})"


def run_case(op: Any, case: Case, fallback: Any) -> Row:
    """All samples of the case, up to the first that is not native or not right."""
    dtype = getattr(torch, case.dtype)
    backward = case.direction == "backward"
    torch.manual_seed(0)
    status, reason, count, start = "native", "", 0, time.monotonic()
    try:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=backward):
            if backward:
                count += check_gradients(op, sample, dtype, fallback=fallback)
            else:
                check_sample(op, sample, dtype, fallback=fallback)
                count += 1
    except AssertionError as error:
        status, reason = "mismatch", str(error).strip()[:300]
    except Exception as error:  # noqa: BLE001  (every failure is a row of the report)
        missing = MISSING.search(str(error)) if isinstance(error, NotImplementedError) else None
        status, reason = ("fallback", missing[missing.lastgroup or 0]) if missing else ("error", where(error))
    if count == 0 and status == "native":
        status, reason = "empty", "no samples"
    reason = " ".join(reason.split())
    return Row(case.op, case.dtype, case.direction, status, reason, count, round(time.monotonic() - start, 3))


def ended(case: Case, category: str, limit: float) -> Row:
    """The row of a case whose process ended."""
    is_late = category == TIME_LIMIT
    reason = f"no result in {limit:.0f} s" if is_late else category.removeprefix("crash: ")
    return Row(case.op, case.dtype, case.direction, "timeout" if is_late else "crash", reason, 0, 0.0)


def prepare() -> Handler:
    ops = by_name()

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        case = Case(**request["case"])
        return {"row": asdict(run_case(ops[case.op], case, request["fallback"]))}

    return handle


if __name__ == "__main__":
    start_worker(prepare)
