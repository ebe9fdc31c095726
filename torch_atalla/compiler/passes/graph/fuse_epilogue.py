# SPDX-License-Identifier: BSD-3-Clause
"""Lets a matrix product apply the activation that follows it, before its result is stored.

Saves a launch and one round trip to DRAM. Off by default: eager mode launches the two kernels one after the other and,
for the 16-bit types, rounds in between.
"""

from __future__ import annotations

from typing import Any

import torch

from ...capture.capture import Captured
from ...lower.recorded import ACTIVATION_KEY
from .matching import node_pass

aten = torch.ops.aten

PRODUCTS = {aten.linear.default, aten.addmm.default, aten.mm.default, aten.bmm.default, aten.baddbmm.default}
_BY_NAME: dict[Any, str] = {aten.relu.default: "relu", aten.silu.default: "silu"}


@node_pass(aten.gelu.default, *_BY_NAME)
def fuse_epilogue(captured: Captured, node: torch.fx.Node) -> bool:
    product: Any = node.args[0]
    if product.target not in PRODUCTS or len(product.users) != 1 or ACTIVATION_KEY in product.meta:
        return False
    if product.meta["val"].dtype != node.meta["val"].dtype or not node.meta["val"].is_floating_point():
        return False
    if any(0 in arg.meta["val"].shape for arg in product.all_input_nodes):
        return False  # eager mode launches no product
    gelu = "gelu_tanh" if node.kwargs.get("approximate", "none") == "tanh" else "gelu_erf"
    product.meta[ACTIVATION_KEY] = _BY_NAME.get(node.target, gelu)
    node.replace_all_uses_with(product)
    captured.graph.erase_node(node)
    return True
