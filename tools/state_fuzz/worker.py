# SPDX-License-Identifier: BSD-3-Clause
"""A child process that runs sequences."""

from __future__ import annotations

import traceback
from typing import Any

from tools.runner import Handler, start_worker


def prepare() -> Handler:
    import torch_atalla
    from tools.graph_fuzz.quicken import quicken_export

    from .sequence import sequence
    from .steps import perform

    torch_atalla.fallback.mode("error")
    quicken_export()

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        problems = []
        for place, step in enumerate(sequence(request["number"])):
            try:
                found = perform(step)
            except Exception as error:
                found = [
                    (f"{step.kind}: exception", f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}")
                ]
            for category, text in found:
                check = f"{step.kind} of {step.function}"
                problems.append({"check": check, "category": category, "text": f"step {place}: {text}\n{step}"})
            if found:
                break
        return {"problems": problems}

    return handle


if __name__ == "__main__":
    start_worker(prepare)
