# SPDX-License-Identifier: BSD-3-Clause
"""Which OpInfos are fully native: runs every OpInfo for every dtype that CPU and chip share, with no fallback.

    python tools/opinfo_sweep.py [--only REGEX] [--jobs 2] [--write] [--verbose]

An OpInfo is fully native if all samples of all its dtypes run without a fallback. --write records these in
test/opinfo_native.json, which test/test_ops.py holds the device to: an OpInfo may be added, none may be lost.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "test/opinfo_native.json"
# Not comparable: random, uninitialised, CUDA-only (jiterator), or the sample wants an argument that a copy to the
# device loses (as_strided.partial_views: a base tensor; tensor_split: indices on the CPU).
INCOMPARABLE = re.compile(
    r"^(empty|new_empty|empty_like|empty_strided|empty_permuted|new_empty_strided|rand|randn|randint|normal|uniform|"
    r"bernoulli|multinomial|nn\.functional\.(dropout|alpha_dropout|feature_alpha_dropout|rrelu|"
    r"fractional_max_pool|gumbel_softmax)|.*_like$|torch\.ops|sparse|svd_lowrank|pca_lowrank|cauchy|exponential|"
    r"geometric|log_normal|to_sparse|item_|jiterator_|as_strided\.partial_views|tensor_split$)"
)


def sweep_one(index: int) -> dict:
    import warnings

    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from torch_atalla.testing import CHIP_DTYPES, check_sample, op_name

    warnings.simplefilter("ignore")
    op = op_db[index]
    result: dict = {"name": op_name(op), "dtypes": {}}
    wanted = [d for d in CHIP_DTYPES if d in op.dtypes]
    for dtype in wanted:
        torch.manual_seed(0)
        status, reason, count = "native", "", 0
        try:
            for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
                count += 1
                check_sample(op, sample, dtype)
        except NotImplementedError as error:
            found = re.search(r"operator '([^']+)'", str(error))
            status, reason = "fallback", found.group(1) if found else str(error).splitlines()[0]
        except AssertionError as error:
            status, reason = "mismatch", str(error).strip().replace("\n", " ")[:300]
        except Exception as error:  # noqa: BLE001  (every failure is a row of the report)
            last = traceback.extract_tb(error.__traceback__)[-1]
            status, reason = (
                "error",
                f"{type(error).__name__}: {str(error)[:300]} ({Path(last.filename).name}:{last.lineno})",
            )
        if count == 0 and status == "native":
            status, reason = "empty", "no samples"
        result["dtypes"][str(dtype).removeprefix("torch.")] = (status, reason, count)
        if status != "native" and status != "empty":
            if status == "fallback":
                break
    return result


def isolated(index: int) -> dict:
    """sweep_one in a forked child: a crash is one row of the report, and no op sees another's state."""
    context = get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(sweep_one(index)))
    child.start()
    send.close()
    try:
        row = receive.recv()
    except EOFError:
        from torch.testing._internal.common_methods_invocations import op_db

        from torch_atalla.testing import op_name

        child.join()
        row = {"name": op_name(op_db[index]), "dtypes": {"any": ("error", f"crash, exit code {child.exitcode}", 0)}}
    child.join()
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression over OpInfo names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="record the fully native OpInfos")
    parser.add_argument("--verbose", action="store_true", help="print why an OpInfo is not native")
    args = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db

    from torch_atalla.testing import op_name

    indices = [
        i for i, op in enumerate(op_db) if re.search(args.only, op_name(op)) and not INCOMPARABLE.search(op_name(op))
    ]
    native: dict[str, list[str]] = {}
    problems: list[str] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for n, row in enumerate(pool.map(isolated, indices), 1):
            states = {d: s for d, (s, _, _) in row["dtypes"].items()}
            bad = {d: v for d, v in row["dtypes"].items() if v[0] in ("mismatch", "error")}
            if states and set(states.values()) <= {"native", "empty"} and "native" in states.values():
                native[row["name"]] = [d for d, s in states.items() if s == "native"]
            for dtype, (status, reason, _) in bad.items():
                problems.append(f"{row['name']} {dtype} {status}: {reason}")
            if args.verbose:
                for dtype, (status, reason, _) in row["dtypes"].items():
                    if status == "fallback":
                        print(f"{row['name']} {dtype} fallback: {reason}")
            if sys.stderr.isatty() or n % 50 == 0:
                print(f"\r{n}/{len(indices)} OpInfos, {len(native)} native", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for line in problems:
        print(line)
    pairs = sum(map(len, native.values()))
    print(f"{len(native)} of {len(indices)} OpInfos fully native ({pairs} op-dtype pairs), {len(problems)} problems")
    if args.write:
        RECORD.write_text(json.dumps(native, indent=1, sort_keys=True) + "\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
