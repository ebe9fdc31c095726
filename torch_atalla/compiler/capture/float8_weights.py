# SPDX-License-Identifier: BSD-3-Clause
"""Weights in 8-bit floats, which files have no dtype for: products with them read their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def is_float8_weight(node: torch.fx.Node) -> bool:
    """Whether only products with encoded weights read the node."""
    value = node.meta.get("val")
    product = torch.ops.atalla.quantized_linear.default
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in _FLOAT8
        and all(user.target is product and user.args[1] is node for user in node.users)
    )


def store_bytes(graph: torch.fx.Graph, constants: Mapping[str, Any]) -> None:
    """constants: the `Constant` of each placeholder, which gets the bytes."""
    for node in graph.find_nodes(op="placeholder"):
        if node.name in constants and is_float8_weight(node):
            constants[node.name].tensor = constants[node.name].tensor.view(torch.uint8)
            node.meta["val"] = node.meta["val"].view(torch.uint8)
