# SPDX-License-Identifier: BSD-3-Clause
"""Replay of a compiled graph as a device graph, for mode="reduce-overhead"."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch

from torch_atalla.device.graphs import Graph, graph, is_current_stream_capturing


class Replayed:
    """A compiled function that is replayed as a device graph: inputs are copied in, results are copied out.

    The first call runs the function, the second one captures it and replays the graph, and later calls replay it.

    `fixed` has the indices of the inputs that are parameters or buffers. The graph reads them in place and is captured
    again if their addresses change. Results are copied out of the graph's memory, so later replays do not change them.
    """

    _boxed_call = True

    def __init__(self, function: Callable[[list[Any]], Any], fixed: Collection[int]):
        self._function = function
        self._fixed = frozenset(fixed)
        self._warm = False
        self._graph: Graph | None = None
        self._inputs: list[torch.Tensor] = []
        self._addresses: tuple[int, ...] = ()
        self._outputs: Any = None

    def __call__(self, args: list[Any]) -> Any:
        if not self._warm or is_current_stream_capturing():
            self._warm = True
            return self._function(args)
        addresses = tuple(args[i].data_ptr() for i in sorted(self._fixed))
        if self._graph is None or addresses != self._addresses:
            self._capture(args, addresses)
        else:
            for i, (held, given) in enumerate(zip(self._inputs, args)):
                if i not in self._fixed:
                    held.copy_(given)
        args.clear()
        assert self._graph is not None
        self._graph.replay()
        return tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in self._outputs)

    def _capture(self, args: list[Any], addresses: tuple[int, ...]) -> None:
        self._inputs = [item if i in self._fixed else item.clone() for i, item in enumerate(args)]
        self._addresses = addresses
        self._graph = Graph()
        torch.accelerator.synchronize()
        with graph(self._graph):
            self._outputs = self._function(list(self._inputs))


def can_replay(graph_module: torch.fx.GraphModule) -> str | None:
    """Return why a compiled graph cannot be captured, or None if it can."""
    for node in graph_module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and not (isinstance(value, torch.Tensor) and value.device.type == "atalla"):
            return f"input {node.name} is no tensor of the device"
        if isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape):
            return "sizes are dynamic"
        if node.op == "call_function" and node.target is torch.ops.aten.copy_.default:
            return f"it updates {node.args[0]}"
    return None
