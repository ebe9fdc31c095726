# SPDX-License-Identifier: BSD-3-Clause
"""The torch.compile backend `atalla`: torch.compile(model, backend="atalla")."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from torch_atalla.compiler.capture.decompositions import eager_decompositions, without_python_kernels

from .current_device import guard_if_unnamed, name_devices
from .debug import hints
from .lowering import compile_graph, device_of
from .options import CompileOptions, read_options
from .random_state import partition
from .replay import Replayed
from .replayable import can_replay, wants_replay
from .shared_memory import checked


def atalla(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph for the device of its tensors. options.py describes the options."""
    chosen = read_options(mode, options)
    replay = wants_replay(graph_module, chosen.replay)
    guard_if_unnamed(graph_module)

    def compiler(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_aot_graph(graph, inputs, chosen)

    def inference(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        device = device_of(graph.graph)
        reason = can_replay(graph, device) if replay else None
        compiled = compile_aot_graph(graph, inputs, chosen)
        if not replay or device is None:
            return compiled
        if reason is not None:
            hints.info("the graph is not replayed: %s", reason)
            return compiled
        context = torch._guards.TracingContext.try_get()
        metadata = context.fw_metadata if context is not None else None
        fixed = metadata.static_input_indices or () if metadata is not None else ()
        return Replayed(compiled, fixed, device)

    compile_aot = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=inference,
        decompositions=eager_decompositions(),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    with without_python_kernels(composites=True):
        function = compile_aot(graph_module, list(example_inputs))
    # AOTAutograd marks all our functions as boxed; the accuracy minifier would then call them with a list.
    if not isinstance(graph_module, torch._dynamo.utils.GmWrapper) and hasattr(function, "_boxed_call"):
        function._boxed_call = False
    context = torch._guards.TracingContext.try_get()
    if isinstance(graph_module, torch._dynamo.utils.GmWrapper) or context is None or context.fw_metadata is None:
        return function
    return checked(function, graph_module, example_inputs, context.fw_metadata)


def compile_aot_graph(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], options: CompileOptions
) -> Callable[[list[Any]], Any]:
    """Call compile_graph. TORCHDYNAMO_REPRO_AFTER=aot adds upstream's checks for errors and wrong results."""
    name_devices(graph)
    if torch._dynamo.config.repro_after != "aot":
        return compile_graph(graph, inputs, options)
    from torch._dynamo.repro.after_aot import wrap_compiler_debug

    def compile_copy(graph: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any) -> Callable[[list[Any]], Any]:
        return compile_graph(copy.deepcopy(graph), inputs, options)

    # Repro scripts of upstream call the compiler of this name, which default.py maps to this function again.
    return wrap_compiler_debug(compile_copy, "inductor")(graph, inputs)  # type: ignore[arg-type,return-value]
