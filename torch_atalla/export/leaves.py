# SPDX-License-Identifier: BSD-3-Clause
"""The leaves of a call's and of a result's pytree, as text in a file's metadata."""

from __future__ import annotations

import json
from typing import Any

from .capture import Leaf
from .errors import ExportError


def dump_leaves(leaves: list[Leaf]) -> str:
    """[{"tensor": name} | {"value": python value}, ...]"""
    records: list[dict[str, Any]] = []
    for leaf in leaves:
        if leaf.is_tensor:
            records.append({"tensor": leaf.name})
        elif leaf.value is None or isinstance(leaf.value, (bool, int, float, str)):
            records.append({"value": leaf.value})
        else:
            raise ExportError(
                f"{leaf.name} is a {type(leaf.value).__name__}; expected a tensor, a number, a string or None"
            )
    return json.dumps(records, separators=(",", ":"))


def load_leaves(text: str) -> list[Leaf]:
    return [
        Leaf(record["tensor"]) if "tensor" in record else Leaf("", is_tensor=False, value=record["value"])
        for record in json.loads(text)
    ]
