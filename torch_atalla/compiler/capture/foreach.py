# SPDX-License-Identifier: BSD-3-Clause
"""Ops on lists of tensors, taken apart into the same op on each tensor: passes then join what lies beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

_PREFIX = "_foreach_"
# Those whose op on one tensor has another name: by name, or by name and overload.
_NAMES = {
    **{"norm": aten.linalg_vector_norm, "zero": aten.zeros_like},
    **{f"maximum.{kind}": aten.clamp_min for kind in ("Scalar", "ScalarList")},
    **{f"minimum.{kind}": aten.clamp_max for kind in ("Scalar", "ScalarList")},
}
_LEFT = ("addcdiv.Tensor", "addcmul.Tensor")  # factors that only the device knows


def foreach_decompositions() -> dict[torch._ops.OperatorBase, Callable]:
    """Of every functional overload."""
    table: dict[torch._ops.OperatorBase, Callable] = {}
    for qualified in torch._C._dispatch_get_all_op_names():
        name, _, overload = qualified.removeprefix("aten::").partition(".")
        if not qualified.startswith(f"aten::{_PREFIX}") or name.endswith("_"):
            continue
        op = getattr(getattr(aten, name), overload or "default")
        short = name.removeprefix(_PREFIX)
        one = _NAMES.get(f"{short}.{overload}") or _NAMES.get(short) or getattr(aten, short, None)
        if one is not None and f"{short}.{overload}" not in _LEFT and not op._schema.is_mutable:
            table[op] = _taken_apart(op, one)
    return table


# What the ops on one tensor take by name only.
_KEYWORDS = {"value": "value", "alpha": "alpha"}


def _taken_apart(op: torch._ops.OpOverload, one: torch._ops.OpOverloadPacket) -> Callable:
    lists = {argument.name for argument in op._schema.arguments if isinstance(argument.type, torch.ListType)}
    factors = one in (aten.addcmul, aten.addcdiv)
    names = [argument.name for argument in op._schema.arguments]

    def each(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        given = [*zip(names, args)]
        count = len(next(value for name, value in [*given, *kwargs.items()] if name in lists))

        def at(name: str, value: Any, i: int) -> Any:
            return value[i] if name in lists else value

        results = []
        for i in range(count):
            each_args = {name: at(name, value, i) for name, value in [*given, *kwargs.items()] if value is not None}
            options = {_KEYWORDS[name]: each_args.pop(name) for name in [*each_args] if name in _KEYWORDS}
            if factors and "scalars" in each_args:
                options["value"] = each_args.pop("scalars")
            if "dtype" in each_args:
                options["dtype"] = each_args.pop("dtype")
            results.append(one(*each_args.values(), **options))
        return results

    return each
