# SPDX-License-Identifier: BSD-3-Clause
"""What the chip runs natively, op by op: the table that the build derives from the list of native ops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from torch_atalla.driver.paths import GENERATED
from torch_atalla.loadable.errors import ExportError

TABLE = GENERATED / "support.json"


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
        return Support(
            kernel=entry.get("kernel") or "",
            adaptor=entry.get("adaptor") or "",
            dtypes=frozenset(entry.get("dtypes", ())),
            inputs=tuple(entry.get("inputs", ())),
            input_types=tuple(entry.get("input_types", ())),
            scalars=tuple(entry.get("scalars", ())),
            optional_scalars=tuple(entry.get("optional_scalars", ())),
            result=entry.get("result", "same"),
            variant_arg=entry.get("variant_arg") or "",
            variants=dict(entry.get("variants") or {}),
        )


SupportTable = Mapping[str, Support]


def parse_support(table: Mapping[str, Any]) -> SupportTable:
    return {op: Support.from_json(entry) for op, entry in table.items()}


@lru_cache(maxsize=1)
def support_table() -> SupportTable:
    """The table of this build. Raises ExportError when the package was not built."""
    if not TABLE.is_file():
        raise ExportError(f"expected the support table at {TABLE}: build the package first (make build)")
    return parse_support(json.loads(TABLE.read_text()))


def op_key(target: Any) -> str:
    """How the table spells an overload: "aten.add.Tensor"."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__name__", str(target))


def qualified_name(target: Any) -> str:
    """How files and reports spell an op: "aten::add.Tensor", "aten::relu" for a default overload."""
    if not isinstance(target, torch._ops.OpOverload):
        return op_key(target)
    name = target._schema.name
    return f"{name}.{target._overloadname}" if target._overloadname != "default" else name
