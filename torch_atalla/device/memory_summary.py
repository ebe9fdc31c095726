# SPDX-License-Identifier: BSD-3-Clause
"""The table of `torch.atalla.memory_summary`, in the layout that torch.cuda's users know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WIDTH = 75
COLUMNS = ("current", "peak", "allocated", "freed")
TITLES = ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")
POOLS = (("all", ""), ("large_pool", "      from large pool"), ("small_pool", "      from small pool"))


def _scaled(value: int, like: int, step: int, units: tuple[str, ...], limit: int) -> tuple[int, str]:
    """`value` in the unit in which `like` has few digits, so that the rows of one block can be compared."""
    unit = 0
    while like >= limit and unit + 1 < len(units):
        value, like, unit = value // step, like // step, unit + 1
    return value, units[unit]


def _size(value: int, like: int) -> str:
    number, unit = _scaled(value, like, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), 768 * 1024)
    return f"{number:6d} {unit:<3}"


def _count(value: int, like: int) -> str:
    number, unit = _scaled(value, like, 1000, ("", "K", "M"), 750 * 1000)
    return f"{number:7d} {unit:<1} "


ROWS: tuple[tuple[str, str, Callable[[int, int], str], bool], ...] = (  # key, title, format, has pools
    ("allocated_bytes", "Allocated memory", _size, True),
    ("active_bytes", "Active memory", _size, True),
    ("requested_bytes", "Requested memory", _size, True),
    ("reserved_bytes", "Reserved memory", _size, True),
    ("inactive_split_bytes", "Non-releasable memory", _size, True),
    ("allocation", "Allocations", _count, True),
    ("active", "Active allocs", _count, True),
    ("segment", "Reserved segments", _count, True),
    ("inactive_split", "Non-releasable allocs", _count, True),
    ("oversize_allocations", "Oversize allocations", _count, False),
    ("oversize_segments", "Oversize segments", _count, False),
)


def _row(title: str, cells: list[str]) -> str:
    return f" {title:<21} | " + " | ".join(cells) + " "


def table(index: int, stats: dict[str, Any], abbreviated: bool) -> str:
    ooms = f"OOMs: {stats['num_ooms']}"
    retries = f"retries after emptying the cache: {stats['num_alloc_retries']}"
    lines = [
        "=" * WIDTH,
        f"PyTorch atalla memory summary, device ID {index}".center(WIDTH),
        "-" * WIDTH,
        f"{ooms:^30}|{retries:^44}",
        "=" * WIDTH,
        "        Metric         | " + " | ".join(f"{title:<10}" for title in TITLES) + " ",
    ]
    for key, title, text, has_pools in ROWS:
        lines.append("-" * WIDTH)
        first: list[int] = []
        for pool, pool_title in POOLS if has_pools else POOLS[:1]:
            if abbreviated and pool != "all":
                continue
            prefix = f"{key}.{pool}" if has_pools else key
            values = [stats[f"{prefix}.{column}"] for column in COLUMNS]
            first = first or values
            lines.append(_row(pool_title or title, [text(v, like) for v, like in zip(values, first, strict=True)]))
    lines.append("=" * WIDTH)
    return "".join(f"|{line}|\n" for line in lines)
