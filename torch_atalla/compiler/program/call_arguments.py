# SPDX-License-Identifier: BSD-3-Clause
"""The arguments of an op by their names in its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def arguments_of(node: torch.fx.Node) -> dict[str, Any]:
    """Those of a node that calls an op, with defaults."""
    target: Any = node.target
    schema = target._schema.arguments
    given = dict(zip((argument.name for argument in schema), node.args)) | node.kwargs
    return {argument.name: given.get(argument.name, argument.default_value) for argument in schema}


def as_call(op: torch._ops.OpOverload, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and those by name, with which the op is called."""
    schema = op._schema.arguments
    plain = [arguments[argument.name] for argument in schema if not argument.kwarg_only]
    return plain, {argument.name: arguments[argument.name] for argument in schema if argument.kwarg_only}
