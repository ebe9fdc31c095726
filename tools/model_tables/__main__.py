# SPDX-License-Identifier: BSD-3-Clause
"""Runs the architectures of tools/model_zoo.py, fallback forbidden, for the tables of docs/reference/models.md.

    python -m tools.model_tables [TABLE ...] [--only REGEX] [--optimize LEVEL] [--write]

eager       in eager mode, compared with the CPU
loadables   as loadables, compared with eager mode, and their launches with those of torch.compile
code        converted to bfloat16, with chip code, compared with float32

Without a TABLE, all of them. The exit status is 1 when a model that runs differs from the CPU; when a loadable differs
from eager mode, or its launches from those of torch.compile; when a model has no code, or its code is farther from
float32 than PyTorch in bfloat16 on the CPU, by more than 0.0005 of the cosine.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from tools.comparison import measured, options, parsed
from tools.model_zoo import MODELS
from tools.pages import DOCS, row, write_section

from . import code, eager, loadables

PAGE = DOCS / "reference/models.md"
TABLES: dict[str, Any] = {"eager": eager, "loadables": loadables, "code": code}


def main() -> int:
    parser = options(__doc__, PAGE)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"some of {', '.join(TABLES)} (default: all)")
    parser.add_argument("--optimize", default="exact", help="level of the loadables (default: %(default)s)")
    args = parsed(parser)
    if unknown := set(args.tables) - set(TABLES):
        parser.error(f"expected some of {', '.join(TABLES)}, got {', '.join(sorted(unknown))}")
    wrong = False
    for name in args.tables or TABLES:
        table = TABLES[name]
        measure = partial(table.measure, optimize=args.optimize) if table is loadables else table.measure
        results = measured(MODELS, args.only, measure, lambda result: row(result.cells()))
        wrong |= any(result.is_wrong for result in results)
        if args.write:
            write_section(PAGE, name, table.lines(results))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
