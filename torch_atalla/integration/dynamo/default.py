# SPDX-License-Identifier: BSD-3-Clause
"""Dispatch from torch.compile's default backend, Inductor, to the backend `atalla` for graphs with atalla tensors.

Imported when torch._inductor.compile_fx is (see __init__.py).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._inductor import compile_fx as inductor
from torch._inductor.virtualized import V

log = logging.getLogger(__name__)

# Options that Inductor's modes set. _mode maps them to the modes of the backend `atalla`.
_GRAPHS, _SEARCH = "triton.cudagraphs", "max_autotune"


def register() -> None:
    upstream = inductor.compile_fx

    @functools.wraps(upstream)
    def compile_fx(
        model_: Any,
        example_inputs_: Sequence[Any],
        config_patches: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        # Inductor cannot generate code for the device ahead of time; inductor.py raises the error.
        if V.aot_compilation or not _uses_device(model_, example_inputs_):
            return upstream(model_, example_inputs_, config_patches=config_patches, **kwargs)
        from .backend import atalla

        return atalla(model_, example_inputs_, mode=_mode(config_patches or {}))

    upstream_inner = inductor.compile_fx_inner

    @functools.wraps(upstream_inner)
    def compile_fx_inner(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Compile a graph that AOTAutograd made. Repro scripts and the minifier call this function."""
        from .lowering import device_of

        if V.aot_compilation or device_of(gm.graph) is None:
            return upstream_inner(gm, example_inputs, *args, **kwargs)
        from .backend import compile_aot_graph
        from .options import read_options

        return compile_aot_graph(gm, example_inputs, read_options(None, None))

    inductor.compile_fx = compile_fx  # type: ignore[assignment]
    inductor.compile_fx_inner = compile_fx_inner  # type: ignore[assignment]


def _mode(patches: Mapping[str, Any]) -> str:
    graphs, search = patches.get(_GRAPHS, False), patches.get(_SEARCH, False)
    others = sorted(set(patches) - {_GRAPHS, _SEARCH, "coordinate_descent_tuning"})
    if others:
        log.info("options of Inductor that mean nothing on this device: %s", ", ".join(others))
    if search:
        return "max-autotune" if graphs else "max-autotune-no-cudagraphs"
    return "reduce-overhead" if graphs else "default"


def _uses_device(model: Any, inputs: Iterable[Any]) -> bool:
    """Return whether any tensor or operator of a Dynamo graph belongs to the device."""
    tensors = list(inputs)
    if isinstance(model, torch.nn.Module):
        tensors += [*model.parameters(), *model.buffers()]
        for module in model.modules():
            if isinstance(module, torch.fx.GraphModule):
                tensors += [node.meta.get("example_value", node.meta.get("val")) for node in module.graph.nodes]
                if any(getattr(node.target, "namespace", None) == "atalla" for node in module.graph.nodes):
                    return True  # an operator of the device that takes no tensor
    leaves = torch.utils._pytree.tree_leaves(tensors)
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == "atalla" for leaf in leaves)
