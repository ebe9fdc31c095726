# SPDX-License-Identifier: BSD-3-Clause
"""Structure and leaves of a call and of its result, as text in a file's metadata."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .errors import ExportError


@dataclass(frozen=True)
class Leaf:
    """A leaf of the call's or of the result's pytree: a tensor of the graph, or a Python value fixed at export."""

    name: str
    is_tensor: bool = True
    value: Any = None


def method_key(key: str, name: str, number: int) -> str:
    """Return the metadata key of a method: `key` for the first method, `key:name` for the others."""
    return key if number == 0 else f"{key}:{name}"


def dump_leaves(leaves: list[Leaf]) -> str:
    """Write leaves as JSON: [{"tensor": name} | {"value": Python value}, ...]."""
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


def dump_spec(spec: pytree.TreeSpec) -> str:
    """Write a pytree spec as JSON. Raises ExportError for a container type that cannot be stored."""
    try:
        text = pytree.treespec_dumps(_plain(spec))
        _check_names(json.loads(text))
        return text
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ExportError(f"a container among inputs or outputs cannot be stored: {error}") from None


def load_spec(text: str) -> pytree.TreeSpec:
    """Read a pytree spec. Raises ExportError for a container type that is not registered in this process."""
    try:
        _check_names(json.loads(text))
        return pytree.treespec_loads(text)
    except (NotImplementedError, ValueError) as error:
        raise ExportError(f"expected containers that are registered with torch.utils._pytree: {error}") from None


def _check_names(record: Any) -> None:
    """Raises ValueError for names of Python objects that are neither a built-in type nor an enumeration that this
    process has imported: pytree imports the module that a spec names, and takes any attribute of it."""
    if isinstance(record, list):
        for item in record:
            _check_names(item)
    elif isinstance(record, dict):
        if "__enum__" in record:
            module, _, path = str(record.get("fqn")).partition(":")
            found: Any = sys.modules.get(module)
            for part in path.split("."):
                found = found.__dict__.get(part) if isinstance(found, (types.ModuleType, type)) else None
            if not (isinstance(found, type) and issubclass(found, Enum)):
                raise ValueError(f"found the name {record.get('fqn')!r}, which is no imported enumeration")
        if "default_factory_module" in record:
            names = record["default_factory_module"], record.get("default_factory_name")
            if names not in [("builtins", kind.__name__) for kind in (int, float, str, list, tuple, dict, set)]:
                raise ValueError(f"found {'.'.join(map(str, names))} as the default_factory of a dict")
        for item in record.values():
            _check_names(item)
    elif isinstance(record, str) and record[:1] in '[{"':
        try:
            nested = json.loads(record)  # a context is JSON in a string
        except ValueError:
            return
        _check_names(nested)


def _plain(spec: pytree.TreeSpec) -> pytree.TreeSpec:
    """Replace torch.return_types (of max, sort, ...), which have no stored form, by plain tuples."""
    if spec.is_leaf():
        return spec
    children = [_plain(child) for child in spec.children()]
    if spec.type is not None and spec.type.__module__ == torch.return_types.__name__:
        return pytree.TreeSpec(tuple, None, children)
    return pytree.TreeSpec(spec.type, spec.context, children)
