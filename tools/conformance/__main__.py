# SPDX-License-Identifier: BSD-3-Clause
"""Runs upstream's device-generic test files on the device, with the fallback forbidden; `make conformance`.

    ATALLA_UPSTREAM_TESTS=pytorch/test python -m tools.conformance [--write] [--jobs N] [--rows FOLDER] [SUITE ...]

ATALLA_UPSTREAM_TESTS is the folder `test` of a source tree of PyTorch, which the wheel of torch does not contain. The
command ends with 1 if a test fails that is neither excluded (exclusions.toml) nor fails on the CPU as well, or if an
excluded test passes. --write writes docs/reference/conformance.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .page import write
from .runs import OUTCOMES, check
from .suites import load, upstream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="files below the folder (default: all of the table)")
    parser.add_argument("--write", action="store_true", help="write the page; other suites keep their counts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--rows", type=Path, help="keep outcomes here; of tests that have one, run those that failed")
    args = parser.parse_args()
    expected = "the folder `test` of a source tree of PyTorch, of the version of the installed torch or near it"
    table, folder = load(), upstream("ATALLA_UPSTREAM_TESTS", expected, "test_torch.py")
    results = []
    for suite in args.suites or table.suites:
        results.append(check(folder, suite, table, args.jobs, args.rows and args.rows.resolve()))
        results[-1].show(OUTCOMES)
    if args.write:
        write(results, folder)
    sys.exit(not all(result.is_right for result in results))


if __name__ == "__main__":
    main()
