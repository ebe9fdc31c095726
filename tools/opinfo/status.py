# SPDX-License-Identifier: BSD-3-Clause
"""docs/reference/opinfo_status.md from the rows of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tools.codegen.model import CLASSES
from tools.pages import table
from torch_atalla.testing import CHIP_DTYPES, EMULATED_DTYPES

from .selection import COMPLEX, ORDER, SURVEYED, cases, device_dtypes, excluded, short
from .worker import Row

DONE = ("native", "empty")


def dtype_text(dtypes: Iterable[str]) -> str:
    """Classes where all members are there, single dtypes otherwise."""
    rest, found = set(dtypes), []
    for name, members in CLASSES.items():
        if len(members) > 1 and set(members) <= rest:
            found.append(name)
            rest -= set(members)
    return ", ".join(found + sorted(rest)) or "-"


def count_text(rows: list[Row], direction: str) -> str:
    chosen = [row for row in rows if row.direction == direction]
    counts = Counter(row.status for row in chosen)
    ops: dict[str, bool] = {}
    for row in chosen:
        ops[row.op] = ops.get(row.op, True) and row.status in DONE
    states = ", ".join(f"{n} {status}" for status, n in counts.most_common()) or "no rows"
    return f"{direction}: {sum(ops.values())} of {len(ops)} OpInfos native in all dtypes; pairs: {states}"


def summary(rows: list[Row]) -> str:
    return "\n".join(count_text(rows, direction) for direction in ("forward", "backward"))


def first_missing(rows: Iterable[Row]) -> str:
    """The overload that the commonest dtype lacks, forward before backward; or what is wrong."""
    order = {short(d): k for k, d in enumerate(device_dtypes())}
    bad = [row for row in rows if row.status not in DONE]
    if not bad:
        return ""
    row = min(bad, key=lambda r: (r.direction != "forward", order[r.dtype]))
    text = f"`{row.reason}`" if row.status == "fallback" else row.status
    return f"{text} ({row.dtype}{', backward' if row.direction == 'backward' else ''})"


def surveyed_native(ops: Mapping[str, Any], rows: Mapping[str, Row]) -> int:
    """As other backends' coverage is counted: forward, for the first dtype of ORDER that the OpInfo has."""
    total = 0
    for name, op in ops.items():
        dtype = next((d for d in ORDER if d in op.dtypes), None)
        row = rows.get(f"{name} {short(dtype)} forward") if dtype else None
        total += row is not None and row.status in DONE
    return total


def totals(ops: Mapping[str, Any], rows: Mapping[str, Row]) -> list[str]:
    running = [name for name, op in ops.items() if not excluded(op)]
    by_op: dict[str, list[Row]] = {}
    for row in rows.values():
        by_op.setdefault(row.op, []).append(row)

    def whole(direction: str, dtypes: Iterable[str]) -> tuple[int, int]:
        """OpInfos native in all of these dtypes that they have, and OpInfos that have any."""
        names, native = set(), set()
        for name in running:
            chosen = [r for r in by_op.get(name, []) if r.direction == direction and r.dtype in set(dtypes)]
            if chosen:
                names.add(name)
                if all(r.status in DONE for r in chosen):
                    native.add(name)
        return len(native), len(names)

    def pairs(direction: str) -> tuple[int, int]:
        chosen = [r for r in rows.values() if r.direction == direction]
        return sum(r.status in DONE for r in chosen), len(chosen)

    everything = [short(d) for d in device_dtypes()]
    real = [short(d) for d in CHIP_DTYPES if d not in COMPLEX]
    surveyed = surveyed_native(ops, rows)
    measures = [
        ("OpInfos forward, all dtypes", *whole("forward", everything)),
        ("OpInfos forward, the dtypes of the chip", *whole("forward", [short(d) for d in CHIP_DTYPES])),
        ("OpInfos forward, dtypes that the chip has not", *whole("forward", [short(d) for d in EMULATED_DTYPES])),
        ("OpInfos forward, the chip's real dtypes", *whole("forward", real)),
        ("OpInfos forward, the first of float32, int64, bool, complex64", surveyed, len(running)),
        ("OpInfos backward, all dtypes", *whole("backward", everything)),
        ("OpInfos backward, float32", *whole("backward", ["float32"])),
        ("op-dtype pairs forward", *pairs("forward")),
        ("op-dtype pairs backward", *pairs("backward")),
    ]
    shares = ((text, n, of, f"{n / max(of, 1):.1%}") for text, n, of in measures)
    return [
        *table("measure | native | of | share", shares),
        "",
        f"Coverage of other backends is counted over {SURVEYED} OpInfos (forward, the first of float32, int64, bool,",
        f"complex64): {surveyed} here, which is {min(surveyed / SURVEYED, 1):.1%} of {SURVEYED}.",
    ]


def page(ops: Mapping[str, Any], rows: Mapping[str, Row]) -> str:
    by_op = []
    missing: Counter[str] = Counter()
    for name, op in sorted(ops.items()):
        mine = [rows[c.key] for c in cases(op) if c.key in rows]
        if not mine:
            continue
        by = {k: [r.dtype for r in mine if r.direction == k and r.status in DONE] for k in ("forward", "backward")}
        of = {k: sum(r.direction == k for r in mine) for k in by}
        first = first_missing(mine)
        missing.update({r.reason for r in mine if r.status == "fallback"})
        cells = [f"{len(by[k])}/{of[k]}: {dtype_text(by[k])}" if of[k] else "none" for k in by]
        by_op.append((f"`{name}`", *cells, first))
    broken = [row for row in rows.values() if row.broken]
    lines = [
        "# Coverage of upstream's op database",
        "",
        "Generated by `make opinfo` (tools/opinfo_sweep.py) from `op_db` of torch 2.13.0: each sample of each OpInfo,",
        "on the device with the fallback forbidden, compared with the CPU. Native means that all samples of a dtype",
        "ran as launches on the chip and gave the CPU's values (or, of random ops, values that the distribution",
        "allows).",
        "docs/guides/testing.md tells how it works.",
        "",
        *totals(ops, rows),
        "",
        "## Excluded OpInfos",
        "",
        *table("OpInfo | reason", ((f"`{name}`", excluded(op)) for name, op in sorted(ops.items()) if excluded(op))),
        "",
        f"## Wrong: {len(broken)} pairs",
        "",
        *(f"- `{r.op}` {r.dtype} {r.direction}, {r.status}: {r.reason[:160]}" for r in broken),
        *([""] if broken else ["None.", ""]),
        "## Missing overloads, by the number of OpInfos that lack them first",
        "",
        *(f"- `{name}`: {n}" for name, n in sorted(missing.items(), key=lambda i: (-i[1], i[0]))),
        *([""] if missing else ["None.", ""]),
        "## By OpInfo",
        "",
        *table("OpInfo | forward | backward | first missing", by_op),
    ]
    return "\n".join(lines) + "\n"
