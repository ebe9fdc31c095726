# SPDX-License-Identifier: BSD-3-Clause
"""Lines of csrc that the C++ tests and the values of kernels (test/kernels) reach, by gcov; `make coverage`.

    python -m tools.coverage --write build/before.json     run the tests and keep what they reach
    python -m tools.coverage --against build/before.json   run them again; exit status 1 if a line is no longer reached

Builds and runs the tests in the configuration `coverage` (build/coverage). Lines of headers count once, whatever the
number of files and types that they are compiled for.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/coverage"

Lines = dict[str, dict[int, bool]]  # file -> line -> whether a test reaches it


def run_tests() -> None:
    """Ends the process if the build or a test fails."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    chip = {"ATALLA_DEVICE_LIBRARY": str(BUILD / "lib/libatalla_sim.so"), "PYTHONPATH": path}
    for command, environment in (
        ([sys.executable, "tools/build.py", "tests", "--config", "coverage"], {}),
        ([sys.executable, "tools/run_cpp_tests.py", "coverage"], {}),
        ([sys.executable, "-W", "ignore", "test/kernels/kernel_values.py"], chip),
    ):
        if subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode:
            sys.exit(f"tools.coverage: {' '.join(command[1:])} failed")


def collect() -> Lines:
    """Reads the counts that the tests left beside the objects."""
    found: Lines = defaultdict(dict)
    notes = [path for path in sorted(BUILD.rglob("*.gcno")) if path.with_suffix(".gcda").exists()]
    scratch = BUILD / "gcov"
    scratch.mkdir(exist_ok=True)
    for note in notes:
        subprocess.run(
            ["gcov", "--json-format", "--object-directory", str(note.parent), str(note.with_suffix(".gcda"))],
            cwd=scratch, capture_output=True, check=True,
        )  # fmt: skip
        for report in scratch.glob("*.gcov.json.gz"):
            for file in json.loads(gzip.decompress(report.read_bytes()))["files"]:
                path = (ROOT / file["file"]).resolve()
                if not path.is_relative_to(ROOT / "csrc"):
                    continue
                lines = found[str(path.relative_to(ROOT))]
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[number] = lines.get(number, False) or line["count"] > 0
            report.unlink()
    return found


def reached(lines: Lines) -> dict[str, list[int]]:
    return {file: sorted(number for number, hit in rows.items() if hit) for file, rows in sorted(lines.items())}


def table(lines: Lines) -> str:
    """Reached and all lines of each folder of csrc."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file, rows in lines.items():
        total = totals["/".join(Path(file).parts[:3])]
        total[0] += sum(rows.values())
        total[1] += len(rows)
    return "\n".join(
        f"{folder:28} {hit:6} of {count:6}  {hit / count:6.1%}" for folder, (hit, count) in sorted(totals.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="keep the lines that the tests reach in this file")
    parser.add_argument("--against", type=Path, help="a file that --write wrote")
    args = parser.parse_args()
    for counts in BUILD.rglob("*.gcda"):
        counts.unlink()
    run_tests()
    lines = collect()
    print(table(lines))
    now = reached(lines)
    if args.write:
        args.write.write_text(json.dumps(now))
    if args.against:
        before = json.loads(args.against.read_text())
        lost = {file: sorted(set(rows) - set(now.get(file, []))) for file, rows in before.items()}
        for file, rows in lost.items():
            for number in rows:
                print(f"{file}:{number}: no longer reached")
        sys.exit(any(lost.values()))


if __name__ == "__main__":
    main()
