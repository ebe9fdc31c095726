# SPDX-License-Identifier: BSD-3-Clause
"""Runs Triton's language tests on the device, with the fallback forbidden.

    ATALLA_TRITON_TESTS=triton/python/test/unit/language/test_core.py python -m tools.conformance.triton [--write]

ATALLA_TRITON_TESTS is the path of test_core.py of a source tree of Triton, which the wheel of triton does not contain.
The file is not changed. Of each function, at most --most parametrisations run, evenly spread. The command ends with 1
if a test fails that exclusions.toml does not list, or if an excluded test passes. --write writes
docs/guides/triton-conformance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from ..suites import load, upstream
from .page import write
from .runs import OUTCOMES, TABLE, check

EXPECTED = (
    "the path of python/test/unit/language/test_core.py in a source tree of Triton, of the installed version or near it"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--most", type=int, default=48, help="tests of a function that run (0: all; default 48)")
    parser.add_argument("--only", default="", help="an expression of pytest's option -k")
    parser.add_argument("--rows", help="a file that takes the outcomes and their texts, as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    args = parser.parse_args()
    path = upstream("ATALLA_TRITON_TESTS", EXPECTED)
    result = check(path, load(TABLE), args.most, args.jobs, args.only)
    result.show(OUTCOMES)
    print(f"{result.share():.1%} of what is not about a GPU passes")
    if args.rows:
        rows = {test: [outcome, result.texts[test]] for test, outcome in result.outcomes.items()}
        Path(args.rows).write_text(json.dumps(rows, indent=1))
    if args.write:
        write(result, path, args.most)
    sys.exit(not result.is_right)


if __name__ == "__main__":
    main()
