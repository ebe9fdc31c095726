# SPDX-License-Identifier: BSD-3-Clause
"""Strides that results of an export have in eager mode on the device, where upstream's fake tensors of the CPU have
others."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ..program.sizes import is_symbolic

Node = torch.fx.Node


def values_on_device(module: torch.fx.GraphModule) -> dict[Node, Any]:
    """Fake tensors of the device for the values that the graph returns; empty if a size is dynamic, since conditions
    on sizes would be added to the program."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    if not all(map(_is_fixed, values)):
        return {}
    returned = set(module.graph.output_node().all_input_nodes)
    found: dict[Node, Any] = {}
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        _OnDevice(module, returned, found).run(enable_io_processing=False)
    return found


class _OnDevice(torch.fx.Interpreter):
    """Runs operators on tensors of the device. What does not run there has the strides that the graph says."""

    def __init__(self, module: torch.fx.GraphModule, returned: set[Node], found: dict[Node, Any]) -> None:
        super().__init__(module)
        self.returned, self.found = returned, found

    def run_node(self, n: Node) -> Any:
        if n.op == "output":
            return None
        result = None
        if n.op == "call_function" and not isinstance(n.target, torch._ops.HigherOrderOperator):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            target: Any = n.target
            try:
                result = target(*args, **({**kwargs, "device": "atalla"} if kwargs.get("device") else kwargs))
            except Exception:  # noqa: BLE001 (of an op that asserts the device, or that only the host runs)
                result = None
        if result is None:
            result = tree_map_only(torch.Tensor, _moved, n.meta.get("val"))
        if n in self.returned:
            self.found[n] = result
        return result


def _moved(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="atalla")


def _is_fixed(value: Any) -> bool:
    leaves = tree_leaves(value)
    numbers = [n for x in leaves if isinstance(x, torch.Tensor) for n in (*x.shape, *x.stride())]
    return not any(map(is_symbolic, (*numbers, *leaves)))
