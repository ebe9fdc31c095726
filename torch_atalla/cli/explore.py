# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla explore model.pt2 --vary array.rows=16,32,64 --objective cycles -o study.html`."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from torch_atalla.explorer.space import parse
from torch_atalla.explorer.study import explore


def main(argv: list[str]) -> int:
    """Run the study and write its page. Return 1, with the reason on stderr, if a value cannot be explored."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_atalla explore", description="Run networks on variants of the chip; write a page."
    )
    parser.add_argument("paths", nargs="+", metavar="model", help=".pt2, compiled for each variant; or .atl, as it is")
    parser.add_argument("--vary", action="append", required=True, metavar="NAME=V,V", help="a parameter and its values")
    parser.add_argument("--objective", default="cycles", metavar="A,B", help="cycles, seconds, joules, area, error")
    parser.add_argument("--search", choices=("grid", "random", "bayes"), default="grid", help="default: %(default)s")
    parser.add_argument("--trials", type=int, help="variants to run (default: all of a grid; 64 of other searches)")
    parser.add_argument("--constraint", action="append", default=[], metavar="A<=N", help="bound of a number")
    parser.add_argument("--folder", default="study", help="of the results; continued if it exists (default: study)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default: %(default)s)")
    parser.add_argument("--dask", metavar="ADDRESS", help='scheduler of a Dask cluster; "local" starts one here')
    parser.add_argument("-o", "--output", default="study.html", help="page to write (default: %(default)s)")
    args = parser.parse_args(argv)
    try:
        with contextlib.ExitStack() as stack:
            if args.dask:
                _use_dask(stack, args.dask, args.jobs)
            study = explore(
                {Path(path).stem: path for path in args.paths},
                dict(map(parse, args.vary)),
                objective=args.objective.split(","),
                search=args.search,
                trials=args.trials,
                constraints=args.constraint,
                folder=args.folder,
                jobs=args.jobs,
                seed=args.seed,
            )
        study.save(args.output)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        print(error, file=sys.stderr)
        return 1
    print(study)
    print(args.output, file=sys.stderr)
    return 0


def _use_dask(stack: contextlib.ExitStack, address: str, jobs: int) -> None:
    import joblib
    from dask.distributed import Client, LocalCluster

    where = LocalCluster(n_workers=jobs, threads_per_worker=1) if address == "local" else address
    stack.enter_context(Client(where))
    stack.enter_context(joblib.parallel_config(backend="dask"))
