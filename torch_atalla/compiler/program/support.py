# SPDX-License-Identifier: BSD-3-Clause
"""What the chip runs natively, op by op: the table that the build derives from the list of native ops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from torch_atalla.driver.installation import extension_folder
from torch_atalla.driver.paths import GENERATED
from torch_atalla.loadable.errors import ExportError


@dataclass(frozen=True)
class Support:
    """One op. For pointwise ops the rest tells how its arguments become operands and parameters."""

    kernel: str = ""
    adaptor: str = ""  # not empty: eager mode launches it by code of its own, not by this table alone
    dtypes: frozenset[str] = frozenset()  # that the kernel computes in
    inputs: tuple[str, ...] = ()
    input_types: tuple[str, ...] = ()  # "compute" or the dtype in which the kernel loads it
    scalars: tuple[str, ...] = ()
    optional_scalars: tuple[str, ...] = ()
    result: str = "same"  # as the compute dtype, or "bool"
    variant_arg: str = ""
    variants: Mapping[str, str] = field(default_factory=dict)  # value of variant_arg -> kernel

    @staticmethod
    def from_json(entry: Mapping[str, Any]) -> Support:
        default = Support()
        given = {f.name: entry[f.name] for f in fields(Support) if entry.get(f.name)}
        return replace(default, **{name: type(getattr(default, name))(value) for name, value in given.items()})


SupportTable = Mapping[str, Support]


@lru_cache(maxsize=1)
def support_table() -> SupportTable:
    """The table of this build."""
    return {
        op: Support.from_json(entry)
        for op, entry in generated("support.json", "support table", extension_folder()).items()
    }


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
