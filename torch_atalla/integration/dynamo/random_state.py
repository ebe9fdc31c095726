# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers that a backward graph needs again: it draws them from the state that the forward graph drew from.

AOTAutograd's partitioner recomputes activations for checkpointing, and for memory budgets and other settings of
torch._functorch.config. Upstream saves the generator's state for checkpointing only, and only for random ops, not for
control flow whose body holds one.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._functorch import config
from torch._functorch.compile_utils import get_aten_target, rand_ops
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._prims.rng_prims import run_with_rng_state
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_atalla.compiler.program.random_nodes import drawing_devices, draws
from torch_atalla.integration.higher_order import draw_again, draw_and_save, get_state

Node = torch.fx.Node


def partition(
    joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Partition by upstream's min-cut, with saved states for each node that draws in both graphs.

    Upstream's alternative, one generator per op, would draw other numbers than eager mode. Its elimination of common
    subexpressions would merge draws: it knows some random ops only.
    """
    merged = any(draws(node) and get_aten_target(node) not in rand_ops for node in joint.graph.nodes)
    with config.patch(graphsafe_rng_functionalization=False, cse=config.cse and not merged):
        forward, backward = min_cut_rematerialization_partition(
            joint, inputs, num_fwd_outputs=num_fwd_outputs, **options
        )
    for node in backward.graph.find_nodes(op="call_function", target=run_with_rng_state):
        _add_value(node)
    first = {node.name: node for node in forward.graph.nodes if draws(node)}
    again = [(first[node.name], node) for node in backward.graph.nodes if node.name in first and draws(node)]
    if again:
        _save_states(forward, backward, again, num_fwd_outputs)
    return forward, backward


def _add_value(node: Node) -> None:
    """Add the example value of a node that draws again, which upstream leaves out."""
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda arg: arg.meta["val"])
    with torch._guards.detect_fake_mode(args) or nullcontext():
        node.meta["val"] = run_with_rng_state(*args, **kwargs)


def _save_states(
    forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, pairs: Sequence[tuple[Node, Node]], place: int
) -> None:
    """Let the forward graph return states from output `place` on. Let the backward graph take them after its sizes."""
    outputs, states = forward.graph.output_node(), list[Node]()
    following = next(node for node in backward.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor))
    for first, second in pairs:
        function: Any = first.target
        devices = drawing_devices(first)
        examples = [_example_state(device) for device in devices]
        with backward.graph.inserting_before(following):
            taken = [backward.graph.placeholder(f"random_state_{len(states) + i}") for i in range(len(devices))]
        with backward.graph.inserting_before(second):
            again = backward.graph.call_function(draw_again, (devices, taken, function, *second.args), second.kwargs)
        with forward.graph.inserting_before(first):
            both = forward.graph.call_function(draw_and_save, (devices, function, *first.args), first.kwargs)
            *saved, drawn = (forward.graph.call_function(operator.getitem, (both, i)) for i in range(len(devices) + 1))
        both.meta["val"] = (*examples, first.meta.get("val"))
        for node, example in zip((*saved, *taken), (*examples, *examples)):
            node.meta["val"] = example
        for old, new, graph in ((first, drawn, forward.graph), (second, again, backward.graph)):
            new.meta = dict(old.meta)
            old.replace_all_uses_with(new)
            graph.erase_node(old)
        states += saved
    returned: Any = outputs.args[0]
    outputs.args = ((*returned[:place], *states, *returned[place:]),)
    forward.recompile()
    backward.recompile()


def _example_state(device: torch.device) -> torch.Tensor:
    with unset_fake_temporarily():
        size = get_state(device).numel()
    with torch._guards.detect_fake_mode() or nullcontext():
        return torch.empty(size, dtype=torch.uint8)
