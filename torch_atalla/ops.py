# SPDX-License-Identifier: BSD-3-Clause
"""The native ops, as the op list gives them."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=1)
def support() -> dict[str, dict[str, Any]]:
    """Native overloads ("aten.add.Tensor") with kernel, promotion and dtypes."""
    return json.loads((Path(__file__).parent / "_generated/support.json").read_text())


def families() -> dict[str, list[str]]:
    """Entries of the op list with the overloads that each registers."""
    found: dict[str, list[str]] = {}
    for overload, row in support().items():
        found.setdefault(row["entry"], []).append(overload)
    return found


def main(as_json: bool = False) -> None:
    table = families()
    if as_json:
        print(json.dumps({"families": table, "support": support()}, indent=1))
        return
    by_kind: dict[str, list[str]] = {}
    for entry, overloads in table.items():
        by_kind.setdefault(support()[overloads[0]]["family"], []).append(entry)
    for kind in sorted(by_kind):
        print(f"{kind} ({len(by_kind[kind])})")
        for entry in sorted(by_kind[kind]):
            row = support()[table[entry][0]]
            names = ", ".join(o.removeprefix("aten.").removesuffix(".default") for o in sorted(table[entry]))
            print(f"  {entry:28} {names}\n  {'':28} dtypes: {', '.join(row['input_dtypes'])}")
    print(f"{len(table)} native families, {len(support())} overloads")
