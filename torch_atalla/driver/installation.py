# SPDX-License-Identifier: BSD-3-Clause
"""Whether the compiled extension fits the torch in use. Checked before the extension is loaded."""

from __future__ import annotations

import json
from typing import Any

from .paths import GENERATED, PACKAGE

REINSTALL = (
    "install the wheel of torch_atalla for this Python and this torch; in a source checkout, run `make build` "
    "(docs/guides/install.md)"
)


def build_info() -> dict[str, Any]:
    """Return how tools/build.py built the package, or {} if another tool built it."""
    path = GENERATED / "build.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def torch_mismatch(built: str | None, used: str) -> str | None:
    """Return what is wrong if an extension built for torch `built` cannot run with torch `used`; None if it can.

    The C++ interface of torch changes between minor versions and stays the same between patch releases.
    """
    if built is None or built.split(".")[:2] == used.split(".")[:2]:
        return None
    return f"torch_atalla was built for torch {built}, and torch {used} is installed"


def explain(error: ImportError) -> str:
    """Return why the extension could not be loaded, and what to do."""
    problem = f"the extension torch_atalla._C does not load: {error}"
    if not list(PACKAGE.glob("_C.*.so")):
        problem = "the extension torch_atalla._C is missing: it was not built"
    return f"{problem}. To fix this, {REINSTALL}."
