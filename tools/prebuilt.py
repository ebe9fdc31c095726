# SPDX-License-Identifier: BSD-3-Clause
"""Compiled files taken from a wheel in dist/ instead of a build."""

from __future__ import annotations

import importlib.metadata
import json
import runpy
import sys
import zipfile
from pathlib import Path

from tools.source_digest import digest

ROOT = Path(__file__).resolve().parents[1]
COMPILED = ("torch_atalla/lib/", "torch_atalla/bin/", "torch_atalla/include/", "torch_atalla/share/",
            "torch_atalla/_generated/", "torch_atalla/driver/c_abi.py",
            "torch_atalla/loadable/file/format.py", "torch_atalla/compiler/tile/step_types.py")  # fmt: skip

folder_name = runpy.run_path(str(ROOT / "torch_atalla/driver/torch_versions.py"))["folder_name"]


def version() -> str:
    """Return the version of the package, from torch_atalla/version.py."""
    return runpy.run_path(str(ROOT / "torch_atalla/version.py"))["__version__"]


def find(folder: Path, sources: str) -> Path | None:
    """Return the wheel in `folder` for this version, Python and torch whose sources have the digest, or None."""
    information = f"torch_atalla/lib/{folder_name(importlib.metadata.version('torch'))}/build.json"
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for path in sorted(folder.glob(f"torch_atalla-{version()}-{tag}-{tag}-*.whl")):
        with zipfile.ZipFile(path) as wheel:
            found = information in wheel.namelist() and json.loads(wheel.read(information))["sources"]
            if found == sources:
                return path
        reason = "made from other sources" if found else "made for other versions of torch"
        print(f"{path.name}: {reason}", file=sys.stderr)
    return None


def unpack(path: Path, root: Path = ROOT) -> None:
    """Write the wheel's compiled and generated files into the package below `root`."""
    with zipfile.ZipFile(path) as wheel:
        for item in wheel.infolist():
            if item.filename.startswith(COMPILED) and not item.is_dir():
                target = root / wheel.extract(item, root)
                target.chmod(item.external_attr >> 16 & 0o777 or 0o644)


def reuse() -> bool:
    """Take the compiled files from a wheel in dist/. False: there is no such wheel, or this checkout has a build."""
    if (ROOT / "build/release/build.ninja").exists():
        return False
    path = find(ROOT / "dist", digest()) if (ROOT / "dist").is_dir() else None
    if path is None:
        return False
    unpack(path)
    print(f"tools/build.py: took the compiled files from dist/{path.name}")
    return True
