# SPDX-License-Identifier: BSD-3-Clause
"""Whether the compiled extension fits the torch in use. Checked before the extension is loaded."""

from __future__ import annotations

import importlib.machinery
import json
from pathlib import Path
from typing import Any

from .paths import LIBRARIES
from .torch_versions import TESTED, folder_name, minor, order

REINSTALL = (
    "install the wheel of torch_atalla for this Python and this torch; in a source checkout, run `make build` "
    "(docs/guides/install.md)"
)


def torch_version() -> str:
    """Return the version of torch in use."""
    import torch

    return torch.__version__


def extension_folder(version: str | None = None) -> Path:
    """Return the folder of what was built for torch `version` (default: the one in use). It may be absent."""
    return LIBRARIES / folder_name(version or torch_version())


def build_info() -> dict[str, Any]:
    """Return how tools/build.py built the extension for the torch in use, or {} if it did not."""
    path = extension_folder() / "build.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def built_versions() -> list[str]:
    """Return the minor versions of torch that the package has an extension for, lowest first."""
    found = {path.parent.name.removeprefix("torch-") for path in LIBRARIES.glob("torch-*/_C.*.so")}
    return sorted(found, key=order)


def torch_mismatch(built: list[str], used: str) -> str | None:
    """Return why no extension for the minor versions `built` can run with torch `used`, or None if one can."""
    if minor(used) in built:
        return None
    tested = "" if minor(used) in TESTED else f", which is not among the tested versions ({', '.join(TESTED)})"
    if not built:
        return f"the extension torch_atalla._C is missing: it was not built. torch {used} is installed{tested}"
    return f"torch_atalla was built for torch {' and '.join(built)}, and torch {used} is installed{tested}"


def extension_file() -> Path | None:
    """Return the extension for the torch and the Python in use, or None."""
    paths = (extension_folder() / f"_C{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def explain(problem: object) -> str:
    """Return why the extension could not be loaded, and what to do."""
    return f"the extension torch_atalla._C does not load: {problem}. To fix this, {REINSTALL}."
