# SPDX-License-Identifier: BSD-3-Clause
"""Queries of the native ops, read from the generated op list."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from .driver.installation import extension_folder


@lru_cache(maxsize=1)
def support() -> dict[str, dict[str, Any]]:
    """Return the native overloads ("aten.add.Tensor") with kernel, promotion and dtypes."""
    return json.loads((extension_folder() / "support.json").read_text())


def families() -> dict[str, list[str]]:
    """Return the entries of the op list, each with the overloads that it registers."""
    found: dict[str, list[str]] = {}
    for overload, row in support().items():
        found.setdefault(row["entry"], []).append(overload)
    return found
