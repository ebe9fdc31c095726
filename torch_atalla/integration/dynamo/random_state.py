# SPDX-License-Identifier: BSD-3-Clause
"""Random ops that are recomputed: the backward graph must draw the same numbers as the forward graph.

Checkpointing recomputes activations. AOTAutograd's partitioner wraps the random ops among them in two higher-order ops,
which upstream implements for a fixed list of devices. The functions of this module replace them in the device's graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from torch_atalla.integration.higher_order import draw_again, draw_and_save


def partition(*args: Any, **kwargs: Any) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Partition by upstream's min-cut, with saved states of the default generator.

    Upstream's alternative, one generator per op, would draw other numbers than eager mode.
    """
    with config.patch(graphsafe_rng_functionalization=False):
        return min_cut_rematerialization_partition(*args, **kwargs)


_FUNCTIONS = {run_and_save_rng_state: draw_and_save, run_with_rng_state: draw_again}


def replace_rng_ops(graph_module: torch.fx.GraphModule, device: torch.device) -> None:
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target in _FUNCTIONS:
            node.target = _FUNCTIONS[node.target]
            node.args = (device, *node.args)
