# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla ops [--json]`: list the native ops."""

from __future__ import annotations

import argparse
import json

from torch_atalla.ops import families, support


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla ops", description="List the native ops.")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    table = families()
    if parser.parse_args(argv).json:
        print(json.dumps({"families": table, "support": support()}, indent=1))
        return 0
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
    return 0
