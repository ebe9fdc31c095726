# SPDX-License-Identifier: BSD-3-Clause
"""A child process that runs sequences: JSON lines in, JSON lines out."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import traceback
import warnings


def main() -> None:
    channel = os.fdopen(os.dup(1), "w")  # what libraries print goes elsewhere
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    import torch

    import torch_atalla
    from tools.graph_fuzz.quicken import quicken_export

    from .sequence import sequence
    from .steps import perform

    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    torch_atalla.fallback.mode("error")
    quicken_export()
    gc.set_threshold(50_000, 20, 100)

    def answer(data: dict) -> None:
        channel.write(json.dumps(data) + "\n")
        channel.flush()

    answer({"ready": os.getpid()})
    for count, line in enumerate(sys.stdin):
        if count % 10 == 0:  # a capture collects garbage: it shall not walk all of PyTorch
            gc.collect()
            gc.freeze()
        problems = []
        for place, step in enumerate(sequence(json.loads(line)["number"])):
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
        answer({"problems": problems})


if __name__ == "__main__":
    main()
