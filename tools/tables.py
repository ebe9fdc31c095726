# SPDX-License-Identifier: BSD-3-Clause
"""What the tools that write tables of models and libraries share: options, pages, names of missing ops."""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

ROOT = Path(__file__).resolve().parents[1]


def options(doc: str | None, page: Path) -> argparse.ArgumentParser:
    """--only and --write, of which parsed() allows one."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows whose name matches")
    parser.add_argument("--write", action="store_true", help=f"write {page.relative_to(ROOT)}")
    return parser


def parsed(parser: argparse.ArgumentParser, argv: list[str] | None = None) -> argparse.Namespace:
    """The options; --write refuses a part of the rows. Warnings of libraries are off from here on."""
    args = parser.parse_args(argv)
    if args.write and args.only:
        parser.error("--write: expected a run of all rows, without --only")
    warnings.simplefilter("ignore")
    return args


def replace_section(page: Path, begin: str, end: str, lines: list[str]) -> None:
    """Puts lines between two markers of a page."""
    before, rest = page.read_text().split(begin)
    page.write_text("\n".join([before + begin, *lines, end]) + rest.partition(end)[2])


def missing_op(error: Exception) -> str:
    """The op that has no kernel, or the beginning of what the error says."""
    found = re.search(r"operator '([^']+)'|^(\w+_overrideable)", str(error))
    return found[found.lastindex or 0] if found else str(error)[:80]


def on_device(value: Any) -> Any:
    """The same containers with their tensors on the device."""
    return tree_map(lambda x: x.to("atalla") if isinstance(x, torch.Tensor) else x, value)
