# SPDX-License-Identifier: BSD-3-Clause
"""What the device reports for whole networks against their executed code: `python -m tools.clock_networks`.

    GROUP ...           groups of networks: small, "full size", transformers (default: the first two)
    --only REGEX        networks whose name matches
    --chips REGEX       named chips whose name matches (tools/clock_networks/chips.py)
    --random N          random chips instead, and whether pairs of them have the same order by both numbers
    --pairs N           so many random pairs (default 50)
    --limit N           at most so many networks of transformers, drawn at random
    --jobs N            processes at a time (default 2)
    --write             docs/reference/clock/networks.md, from all results that are kept

Results are kept in build/clock_networks; a run continues where the last one ended. Exit code 1 if a network fails,
a ratio is out of its bounds without a reason, or the order of a pair differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from tools.pages import ROOT
from tools.runner import Worker, run
from torch_atalla.explorer.space import with_values

from . import chips, networks, page, results

CHIP_FILE = ROOT / "csrc/sim/chip.toml"
LIMIT = 1200  # seconds of the processor for a network


def measure(chip: str, values: chips.Values, todo: list[str], jobs: int) -> None:
    """Those of the networks on the chip that no earlier run has measured."""
    path = results.path_for(chip)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = results.rows(chip)
    missing = [name for name in todo if name not in known]
    file = path.with_suffix(".toml")
    file.write_text(with_values(CHIP_FILE.read_text(), values))

    def take(_: int, name: str, answer: dict[str, Any]) -> None:
        for problem in answer.pop("problems", ()):
            answer["problem"] = f"{problem['category']}: {problem['text']}"
        with path.open("a") as kept:
            kept.write(json.dumps({"chip": chip, "network": name} | answer) + "\n")
        print(
            chip, name, answer.get("problem") or f"{answer['executed'] / answer['reported']:.4f}", sep=" | ", flush=True
        )

    environment = {"ATALLA_CHIP_CONFIG": str(file), "ATALLA_DRAM_BYTES": str(4 << 30), "HF_HUB_OFFLINE": "1"}
    workers = [Worker(path.with_suffix(".log"), "tools.clock_networks.worker", environment, 20) for _ in range(jobs)]
    cases = range(len(missing))
    run(lambda k: (missing[k], {"network": missing[k]}), cases, take, workers=workers, limit=LIMIT)


def pairs(names: Iterable[str], count: int) -> list[tuple[str, str]]:
    every = list(itertools.combinations(names, 2))
    return random.Random(0).sample(every, min(count, len(every)))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.clock_networks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", default=["small", "full size"])
    parser.add_argument("--only", default="")
    parser.add_argument("--chips", default="")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if unknown := set(args.groups) - set(networks.GROUPS):
        parser.error(f"expected some of {', '.join(networks.GROUPS)}, got {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    todo = [name for name in networks.names(args.groups) if re.search(args.only, name)]
    if args.limit:
        todo = random.Random(0).sample(todo, min(args.limit, len(todo)))
    on = chips.drawn(args.random, 0) if args.random else chips.NAMED
    on = {name: values for name, values in on.items() if re.search(args.chips, name)}
    for chip, values in on.items():
        measure(chip, values, todo, args.jobs)
    every = chips.NAMED | chips.drawn(args.random, 0)
    found = {chip: results.rows(chip) for chip in every}
    compared = pairs(chips.drawn(args.random, 0), args.pairs)
    text = page.page(found, compared)
    print(text)
    if args.write:
        page.PAGE.write_text(text)
    wrong = results.reversed_orders(results.comparisons(found, compared))
    return int(bool(results.unexplained(found) or wrong))


if __name__ == "__main__":
    sys.exit(main())
