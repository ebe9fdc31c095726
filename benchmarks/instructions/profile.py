# SPDX-License-Identifier: BSD-3-Clause
"""Sums of a file that callgrind wrote: instructions by part, from the format's description in valgrind's manual."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

OURS = {"libatalla_sim": "chip", "libatalla_runtime": "driver", "_C": "extension"}
TORCH = re.compile(r"^lib(torch|c10|shm)")
_NAME = re.compile(r"^(ob|fn|cob|cfn)=\((\d+)\)(?: (.*))?$")


def part_of(object_path: str) -> str:
    """The part of the system that a shared library is: chip, driver, extension, torch, or other."""
    stem = Path(object_path).name.partition(".")[0]
    return OURS.get(stem, "torch" if TORCH.match(stem) else "other")


def instructions(path: Path) -> Counter[str]:
    """Instructions by part; what a call costs inside is counted where it was executed."""
    return Counter({part: count for part, count in _sums(path, by_function=False).items()})


def functions(path: Path) -> Counter[str]:
    """Instructions by "part: function"."""
    return _sums(path, by_function=True)


def _sums(path: Path, by_function: bool) -> Counter[str]:
    names: dict[str, dict[str, str]] = {"ob": {}, "fn": {}}
    found: Counter[str] = Counter()
    key = part = ""
    function = ""
    after_call = False
    for line in path.read_text().splitlines():
        if match := _NAME.match(line):
            kind, number, name = match.groups()
            table = names[kind.removeprefix("c")]
            if name is not None:
                table[number] = name
            if kind == "ob":
                part = part_of(table[number])
            elif kind == "fn":
                function = table[number]
            key = f"{part}: {function}" if by_function else part
        elif line.startswith("calls="):
            after_call = True  # the next line has the costs of the callee
        elif line and (line[0].isdigit() or line[0] in "+-*"):
            if not after_call:
                found[key] += int(line.split()[1]) if " " in line else 0
            after_call = False
    return found
