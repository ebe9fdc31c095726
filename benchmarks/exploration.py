# SPDX-License-Identifier: BSD-3-Clause
"""16 variants of the chip with three networks: `python -m benchmarks.exploration [--dask] [--write-docs]`.

Prints the seconds that the study takes, and its best variants. The page is build/exploration/study.html, whose picture
test/ecosystem/test_explore.py takes.

--dask: once more on a local Dask cluster, which must give the same numbers. --write-docs: the example of
docs/guides/explore.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

import torch

from tools.pages import write_section
from torch_atalla.cli.explore import main as explore
from torch_atalla.explorer.study import Study

from .loadable.models import make

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build/exploration"
DOCS = ROOT / "docs/guides/explore.md"
NETWORKS = ("minilm", "gpt", "resnet18")
VARY = {
    "array.rows": "32,64",
    "dram.preset": "ddr4_3200,lpddr4_3200,lpddr5_6400,hbm2_2000",
    "sdma.queue_depth": "8,64",
}


def run(name: str, further: list[str]) -> tuple[Study, float]:
    """The study and the seconds that it took, from an empty folder."""
    import optuna

    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    command = [str(FOLDER / f"{network}.pt2") for network in NETWORKS]
    command += [part for key, values in VARY.items() for part in ("--vary", f"{key}={values}")]
    command += ["--objective", "cycles,joules,area,error", "--folder", str(folder)]
    start = time.perf_counter()
    if explore([*command, "-o", str(FOLDER / f"{name}.html"), *further]):
        sys.exit(1)
    seconds = time.perf_counter() - start
    return Study.of(optuna.load_study(study_name="explore", storage=f"sqlite:///{folder / 'study.db'}")), seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exploration", description=__doc__.splitlines()[0])
    parser.add_argument("--dask", action="store_true", help="run the study on a local Dask cluster, too, and compare")
    parser.add_argument("--write-docs", action="store_true", help="write the example of docs/guides/explore.md")
    args = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in NETWORKS:
        torch.export.save(torch.export.export(*make(name)), FOLDER / f"{name}.pt2")
    study, seconds = run("study", [])
    took = f"{len(study.points)} variants of {len(NETWORKS)} networks in {seconds:.0f} s on two cores"
    print(took)
    if args.dask:
        other, seconds = run("dask", ["--dask", "local"])
        by_values = [
            {tuple(point.values.items()): point.measured for point in found.points} for found in (study, other)
        ]
        if by_values[0] != by_values[1]:
            sys.exit("the study on the Dask cluster has other numbers; expected the same ones")
        print(f"the same numbers on a local Dask cluster, in {seconds:.0f} s")
    if args.write_docs:
        command = " ".join(f"--vary {key}={values}" for key, values in VARY.items())
        lines = [f"$ python -m torch_atalla explore {' '.join(f'{n}.pt2' for n in NETWORKS)} {command} \\"]
        lines += ["    --objective cycles,joules,area,error", str(study)]
        write_section(DOCS, "study", ["```text", *lines, "```", "", f"{took}."])


if __name__ == "__main__":
    main()
