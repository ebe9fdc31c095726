# SPDX-License-Identifier: BSD-3-Clause
"""One runtime that decodes, in one process, which benchmarks/loadable/decoder.py starts.

    python worker.py save RUNTIME FOLDER              -> one line of JSON: seconds, bytes
    python worker.py decode RUNTIME FOLDER THREADS    -> a line when loaded, then one for each line

Each line on stdin asks for one request: the prompt, then a token at a time. The answer has the tokens, the seconds of
the prompt and those of the steps behind it. FOLDER holds the weights and the prompt of model.make.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.decoder.arrays import Next, Start
from benchmarks.decoder.runtimes import RUNTIMES
from benchmarks.decoder.sizes import PROMPT, STEPS
from benchmarks.loadable.worker import STARTED, reply


def decode(start: Start, following: Next) -> dict[str, Any]:
    """One request."""
    begin = time.perf_counter()
    tokens = [start()]
    middle = time.perf_counter()
    for at in range(PROMPT, PROMPT + STEPS - 1):
        tokens.append(following(tokens[-1], at))
    return {"tokens": tokens, "prefill": middle - begin, "steps": time.perf_counter() - middle}


def main() -> None:
    action, runtime, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    out = os.fdopen(os.dup(1), "w")  # libraries may print to what they know as stdout
    os.dup2(2, 1)
    if runtime not in RUNTIMES:
        sys.exit(f"no decoder for {runtime}")
    save, load = RUNTIMES[runtime]
    if action == "save":
        seconds, size = save(folder)
        reply(out, seconds=seconds, bytes=size)
        return
    prepare = load(folder, int(sys.argv[4]))
    imported = time.perf_counter()
    calls = prepare()
    reply(out, imports=imported - STARTED, load=time.perf_counter() - imported)
    for _ in sys.stdin:
        reply(out, **decode(*calls))


if __name__ == "__main__":
    main()
