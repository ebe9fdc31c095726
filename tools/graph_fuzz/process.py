# SPDX-License-Identifier: BSD-3-Clause
"""The loop of a child process that runs cases: JSON lines in, JSON lines out.

The parent (campaign.py) ends the process when a case takes too long, and reads from its end that a case crashed.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

Handler = Callable[[dict[str, Any]], dict[str, Any]]


def start_worker(prepare: Callable[[], Handler]) -> None:
    """Answer requests until the input ends. `prepare` imports what cases need and returns the function of a request."""
    channel = os.fdopen(os.dup(1), "w")  # what libraries print goes elsewhere
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    import torch

    import torch_atalla

    torch.set_num_threads(1)
    torch_atalla.chip.set_num_threads(1)
    handle = prepare()
    gc.set_threshold(50_000, 20, 100)

    def answer(data: dict[str, Any]) -> None:
        channel.write(json.dumps(data) + "\n")
        channel.flush()

    answer({"ready": os.getpid()})
    for number, line in enumerate(sys.stdin):
        if number % 10 == 0:  # a capture collects garbage: it shall not walk all of PyTorch
            gc.collect()
            gc.freeze()
        answer(handle(json.loads(line)))
