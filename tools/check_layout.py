# SPDX-License-Identifier: BSD-3-Clause
"""Checks which headers each floor of csrc includes, and that folders stay small (docs/concepts/architecture.md).

python tools/check_layout.py     prints every violation; exit code 1 if there is one
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "csrc", "torch_atalla", "tools", "test", "docs")
MOST_FILES = 30

# Floor -> beginnings of the paths below csrc that its files may include.
ABI = ("sim/abi/atalla", "sim/abi/dtype.h")  # the C headers, and sizes and names of their dtype codes
INCLUDES = {
    "sim": ("sim/",),
    "runtime": ("runtime/", *ABI),
    "aten": ("aten/", "runtime/", *ABI),
}
TORCH_FREE = ("sim", "runtime")
TORCH = ("torch/", "ATen/", "c10/", "pybind11/", "Python.h")
_INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)


def included(path: PurePosixPath, name: str, known: set[str]) -> str | None:
    """The header's path below csrc; None for a generated one."""
    parts: list[str] = []
    for part in (path.parent / name).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    beside = "/".join(parts)
    return next((found for found in (beside, f"csrc/{name}") if found in known), None)


def include_problems(files: list[str]) -> list[str]:
    known, problems = set(files), []
    for file in files:
        path = PurePosixPath(file)
        if path.parts[0] != "csrc" or path.suffix not in (".h", ".hpp", ".c", ".cpp"):
            continue
        floor = path.parts[1]
        for bracket, name in _INCLUDE.findall((ROOT / file).read_text()):
            if bracket == "<":
                if floor in TORCH_FREE and name.startswith(TORCH):
                    problems.append(f"{file}: includes {name}; the floor {floor} is free of PyTorch and Python")
                continue
            header = included(path, name, known)
            if header is None and "/" in name:
                problems.append(f"{file}: includes {name}, which is neither in csrc nor generated")
            elif header is not None and not header.removeprefix("csrc/").startswith(INCLUDES[floor]):
                problems.append(f"{file}: includes {name}; the floor {floor} includes {', '.join(INCLUDES[floor])}")
    return problems


def folder_problems(files: list[str]) -> list[str]:
    counts = Counter(str(PurePosixPath(file).parent) for file in files)
    return [f"{folder}: {n} files, at most {MOST_FILES}" for folder, n in sorted(counts.items()) if n > MOST_FILES]


def main() -> int:
    listed = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", *FOLDERS], text=True).splitlines()
    files = [file for file in listed if (ROOT / file).is_file()]  # without those deleted and not yet committed
    problems = include_problems(files) + folder_problems(files)
    print("\n".join(problems) or f"{len(files)} files as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
