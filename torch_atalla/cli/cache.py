# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla cache [--clear] [--json]`: the on-disk cache of torch.compile."""

from __future__ import annotations

import argparse
import json

from torch_atalla.integration.dynamo import cache_folder


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_atalla cache", description="Show or clear the programs stored by torch.compile."
    )
    parser.add_argument("--clear", action="store_true", help="remove all entries")
    parser.add_argument("--json", action="store_true", help="print the entries as JSON")
    options = parser.parse_args(argv)
    found = cache_folder.statistics()
    if options.clear:
        found["removed"] = cache_folder.clear()
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    print(
        f"{found['entries']} entries, {found['bytes']:,} bytes of at most {found['limit']:,}, in {found['directory']}"
    )
    if options.clear:
        print(f"removed {found['removed']}")
    return 0
