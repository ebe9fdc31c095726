# SPDX-License-Identifier: BSD-3-Clause
"""Pages of docs/ that programs write, their tables and sections; `make docs`.

    python -m tools.pages [--check] [PAGE ...]      all pages of PAGES, or some

With --check nothing is written; the exit status is 1 if a page is stale, or if its module finds problems.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

# Page below docs/ -> module with `page()`, its text, and in some cases `problems()`: what is wrong in its sources.
PAGES = {
    "concepts/tile-programs.md": "tools.codegen.tile.docs",
    "guides/compile-names.md": "tools.conformance.dynamo_names",
    "guides/testing.md": "tools.codegen.suites",
    "reference/chip-parameters.md": "tools.codegen.chip_docs",
    "reference/code-size.md": "tools.codegen.code_size",
    "reference/cuda-names.md": "tools.names.cuda_names",
    "reference/dispatch-keys.md": "tools.dispatch_keys",
    "reference/isa-instructions.md": "tools.codegen.isa_docs",
    "reference/kernels.md": "tools.codegen.kernels_docs",
    "reference/layouts.md": "tools.codegen.layouts",
    "reference/ops.md": "tools.codegen.docs",
}


def row(cells: Iterable[object]) -> str:
    return "|" + "".join(f" {text} |" if (text := str(cell)) else " |" for cell in cells)


def table(head: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """The lines of a table. head: the columns' names with " | " between them; those of numbers end with ":"."""
    names = head.split(" | ")
    rules = ("---:" if name.endswith(":") else "---" for name in names)
    return [row(name.removesuffix(":").strip() for name in names), row(rules), *map(row, rows)]


def with_section(page: Path, name: str, lines: Iterable[str]) -> str:
    """The text of a page with these lines between its markers `<!-- begin: name -->` and `<!-- end: name -->`. Raises
    ValueError if it lacks one."""
    begin, end = (f"<!-- {edge}: {name} -->" for edge in ("begin", "end"))
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page}: expected the lines {begin!r} and {end!r}")
    return "\n".join([before + begin, *lines, end + after])


def write_section(page: Path, name: str, lines: Iterable[str]) -> None:
    page.write_text(with_section(page, name, lines))


def text_of(name: str) -> str:
    """A page as it should be."""
    return import_module(PAGES[name]).page()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"some of {', '.join(PAGES)} (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on stale pages and on problems")
    args = parser.parse_args(argv)
    if unknown := set(args.pages) - set(PAGES):
        parser.error(f"expected some of {', '.join(PAGES)}, got {', '.join(sorted(unknown))}")
    wrong: list[str] = []
    for name in args.pages or PAGES:
        path, text = DOCS / name, text_of(name)
        wrong += getattr(import_module(PAGES[name]), "problems", list)()
        if not args.check:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            wrong.append(f"docs/{name} is stale: run `python -m tools.pages {name}`")
    print("".join(f"{text}\n" for text in wrong), end="", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
