# SPDX-License-Identifier: BSD-3-Clause
"""The recorded counts, and what differs from them too much."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .counts import Counts

RECORD = Path(__file__).with_name("record.json")
LIMIT = 0.02
SLACK = 4  # instructions: a branch that is taken in one call of many moves a mean by less
ANEW = "if the increase is meant, record it: python -m benchmarks.instructions --record"


def recorded_elsewhere(record: dict[str, Any], tools: dict[str, str]) -> str:
    """Why the record does not apply to this machine's build, or nothing. Other compilers give other counts."""
    different = [
        f"{name} {tools[name]}, recorded with {record['tools'].get(name, 'none')}"
        for name in tools
        if tools[name] != record["tools"].get(name)
    ]
    return f"{'; '.join(different)}; record anew: python -m benchmarks.instructions --record" if different else ""


def problems(record: Counts, found: Counts) -> list[str]:
    """A line per part of a case that grew by more than LIMIT, and per case that only one of the two has."""
    lines = [f"{name}: not counted, but recorded; {ANEW}" for name in record if name not in found]
    for name, parts in found.items():
        if name not in record:
            lines.append(f"{name}: {sum(parts.values()):,} instructions, not recorded; {ANEW}")
            continue
        for part, before in record[name].items():
            now = parts.get(part, 0)
            if now > before * (1 + LIMIT) and now - before > SLACK:
                growth = now / before - 1
                lines.append(
                    f"{name}, {part}: {now:,} instructions per call, {growth:.1%} above the recorded {before:,}; "
                    f"expected at most {LIMIT:.0%}; {ANEW}"
                )
        lines += [
            f"{name}, {part}: {parts[part]:,} instructions per call where none were recorded; {ANEW}"
            for part in parts
            if part != "other" and part not in record[name]
        ]
    return lines
