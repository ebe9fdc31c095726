# SPDX-License-Identifier: BSD-3-Clause
"""Tables that the build derives from the list of native ops and from the contracts, and how they spell ops."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from torch_atalla.driver.installation import extension_folder
from torch_atalla.driver.paths import GENERATED
from torch_atalla.loadable.errors import ExportError


@lru_cache(maxsize=1)
def native_ops() -> frozenset[str]:
    """The ops that this build runs natively, by their keys."""
    return frozenset(generated("support.json", "support table", extension_folder()))


def generated(file: str, what: str, folder: Path = GENERATED) -> dict[str, Any]:
    """A table that the build wrote. Raises ExportError when the package was not built."""
    path = folder / file
    if not path.is_file():
        raise ExportError(f"expected the {what} at {path}: build the package first (make build)")
    return json.loads(path.read_text())


def op_key(target: Any) -> str:
    """How the table spells an overload: "aten.add.Tensor"."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__name__", str(target))


def overloads(*names: str) -> set[torch._ops.OpOverload]:
    """The ATen ops of these names: "add.Tensor", "relu" for a default overload."""
    pairs = (name.partition(".") for name in names)
    return {getattr(getattr(torch.ops.aten, name), overload or "default") for name, _, overload in pairs}


def qualified_name(target: Any) -> str:
    """How files and reports spell an op: "aten::add.Tensor", "aten::relu" for a default overload."""
    if not isinstance(target, torch._ops.OpOverload):
        return op_key(target)
    name = target._schema.name
    return f"{name}.{target._overloadname}" if target._overloadname != "default" else name
