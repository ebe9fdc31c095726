# SPDX-License-Identifier: BSD-3-Clause
"""Ops that draw random numbers in the forward graph, and the same numbers again in the backward graph.

Checkpointing recomputes activations, so that AOTAutograd's partitioner wraps what draws them in two higher-order ops,
which upstream implements for a fixed list of devices. These functions stand for them in graphs of the device.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from torch_atalla.device import random


def partition(*args: Any, **kwargs: Any) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Upstream's min-cut, with states of the default generator rather than generators of each op's own, which would
    draw other numbers than eager mode does."""
    with config.patch(graphsafe_rng_functionalization=False):
        return min_cut_rematerialization_partition(*args, **kwargs)


def draw_and_save(device: torch.device, op: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    """The generator's state, and the result of an op that draws from it."""
    return random.get_rng_state(device), op(*args, **kwargs)


def draw_again(device: torch.device, state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of an op that draws from a saved state; the generator is left as it was."""
    before = random.get_rng_state(device)
    random.set_rng_state(state, device)
    try:
        return op(*args, **kwargs)
    finally:
        random.set_rng_state(before, device)


_FUNCTIONS = {run_and_save_rng_state: draw_and_save, run_with_rng_state: draw_again}


def replace_rng_ops(graph_module: torch.fx.GraphModule, device: torch.device) -> None:
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target in _FUNCTIONS:
            node.target = _FUNCTIONS[node.target]
            node.args = (device, *node.args)
