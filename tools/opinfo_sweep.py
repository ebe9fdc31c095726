# SPDX-License-Identifier: BSD-3-Clause
"""Which OpInfos are native: runs upstream's op database on the device and compares with the CPU.

    python tools/opinfo_sweep.py                    forward and backward, all dtypes, fallback forbidden
    python tools/opinfo_sweep.py --only '^abs$'     some OpInfos (a regular expression over their names)
    python tools/opinfo_sweep.py --fallback         fallback allowed: nothing may differ, nothing may crash
    python tools/opinfo_sweep.py --shard 1/4        a quarter of the OpInfos
    python tools/opinfo_sweep.py --write            also records the result (see below)
    python tools/opinfo_sweep.py --report --write   records what earlier sweeps of this build found

A sweep keeps its rows in build/opinfo and goes on there when it was interrupted; another build starts anew.
--write updates test/data/opinfo_native.json, which CI holds the device to: dtypes may be added, none may be lost (the
exit status is 1 then, and nothing is written; --accept-losses writes all the same). After a sweep of everything it
writes docs/reference/opinfo_status.md too.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch_atalla  # noqa: E402, F401  (before torch.testing: its list of device types is built at import)
from tools.opinfo import status  # noqa: E402
from tools.opinfo.selection import Case, by_name, cases  # noqa: E402
from tools.opinfo.state import State  # noqa: E402
from tools.opinfo.worker import Row, ended  # noqa: E402
from tools.runner import Worker, run  # noqa: E402
from torch_atalla.testing import Native, Record  # noqa: E402

RECORD = ROOT / "test/data/opinfo_native.json"
STATUS = ROOT / "docs/reference/opinfo_status.md"


def shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"expected i/n with 1 <= i <= n, got {text!r}")
    return int(found[1]), int(found[2])


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="only OpInfos whose full name matches")
    parser.add_argument("--direction", choices=["forward", "backward"], help="only this direction")
    parser.add_argument("--dtype", default="", metavar="REGEX", help="only dtypes whose name matches")
    parser.add_argument("--fallback", action="store_true", help="allow the fallback; fail on any difference")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="the i-th of n parts")
    parser.add_argument(
        "--timeout", type=float, default=600, help="seconds of the processor that one dtype of an OpInfo may take"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the rows of an earlier sweep of this build")
    parser.add_argument("--report", action="store_true", help="run nothing: report the rows that are there")
    parser.add_argument("--write", action="store_true", help="update the record (and the status page)")
    parser.add_argument("--accept-losses", action="store_true", help="write even if the record shrinks")
    parser.add_argument("--verbose", action="store_true", help="print why each dtype is not native")
    args = parser.parse_args(argv)
    if args.fallback and args.write:
        parser.error("--write: the record is about native ops, so not with --fallback")
    return args


def wanted(ops: dict[str, Any], args: argparse.Namespace) -> list[Case]:
    """The cases of the chosen OpInfos. Shards are dealt out in turn: neighbours in the database cost alike."""
    directions = (args.direction,) if args.direction else ("forward", "backward")
    chosen = [
        [case for case in cases(op, directions) if re.search(args.dtype, case.dtype)]
        for name, op in ops.items()
        if re.search(args.only, name)
    ]
    part, parts = args.shard
    return [case for found in list(filter(None, chosen))[part - 1 :: parts] for case in found]


def sweep(todo: list[Case], state: State, args: argparse.Namespace) -> None:
    mode = "silent" if args.fallback else "error"
    pause = 0.1 if sys.stderr.isatty() else 30  # seconds between two lines
    progress = tqdm(total=len(todo), unit="pair", mininterval=pause, ascii=True)
    counts = {"native": 0, "broken": 0}

    def take(_: int, case: Case, answer: dict[str, Any]) -> None:
        problems = answer.get("problems")
        row = ended(case, problems[0]["category"], args.timeout) if problems else Row(**answer["row"])
        state.append([row])
        counts["native"] += row.status in ("native", "empty")
        counts["broken"] += row.broken
        progress.set_postfix_str(f"{counts['native']} native, {counts['broken']} wrong", refresh=False)
        progress.update()

    def request(number: int) -> tuple[Case, dict[str, Any]]:
        return todo[number], {"case": asdict(todo[number]), "fallback": mode}

    workers = [Worker(state.directory / "worker.log", "tools.opinfo.worker") for _ in range(args.jobs)]
    run(request, range(len(todo)), take, workers=workers, limit=args.timeout)
    progress.close()


def record(rows: Iterable[Row]) -> Record:
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.status == "native":
            found.setdefault(row.op, {"forward": [], "backward": []})[row.direction].append(row.dtype)
    return Record({n: Native(tuple(sorted(d["forward"])), tuple(sorted(d["backward"]))) for n, d in found.items()})


def write(ops: dict[str, Any], rows: dict[str, Row], accept_losses: bool) -> bool:
    """Updates the record with the OpInfos of which every case has a row. False if it would shrink."""
    whole = {name for name, op in ops.items() if all(case.key in rows for case in cases(op))}
    old = Record.load(RECORD)
    new = old.updated(record(rows.values()), whole & {row.op for row in rows.values()})
    lost = old.lost(new)
    for line in lost:
        print(f"lost: {line}")
    if lost and not accept_losses:
        print(f"{RECORD.name} not written: {len(lost)} entries would be lost (--accept-losses writes all the same)")
        return False
    new.save(RECORD)
    if len(whole) == len(ops):
        STATUS.write_text(status.page(ops, rows))
        print(f"wrote {STATUS.relative_to(ROOT)}")
    print(f"wrote {RECORD.relative_to(ROOT)}: {new.pairs()} forward and {new.pairs('backward')} backward pairs")
    return True


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    ops = by_name()
    todo = wanted(ops, args)
    keys = {case.key for case in todo}
    state = State("fallback" if args.fallback else "strict", args.shard)
    if not args.report:
        state.start(args.fresh)
        there = state.rows()
        sweep([case for case in todo if case.key not in there], state, args)
    rows = state.rows()
    shown = [row for key, row in rows.items() if key in keys]
    for row in shown:
        if row.broken or (args.verbose and row.status == "fallback"):
            print(f"{row.op} {row.dtype} {row.direction} {row.status}: {row.reason}")
    print(status.summary(shown))
    if args.write and not write(ops, rows, args.accept_losses):
        return 1
    if args.fallback:
        return int(any(row.status not in ("native", "empty") for row in shown))
    return int(any(row.broken for row in shown))


if __name__ == "__main__":
    sys.exit(main())
