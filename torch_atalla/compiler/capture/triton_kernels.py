# SPDX-License-Identifier: BSD-3-Clause
"""Triton kernels in a captured graph: upstream's higher-order op becomes `atalla::tile_program_copy`, an op as others.

Triton compiles the kernel for the tensors of the graph (compiler/tile has its program), and tunes it if it is one of
`triton.autotune`. A launch whose sizes differ from call to call stays what it was.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_atalla.loadable.errors import ExportError

from ..program.layouts import span
from ..program.sizes import is_symbolic
from ..tile.launch import Launched, named, observed_launches, storage_of

_OPS = "torch._higher_order_ops.triton_kernel_wrap"


def lower_triton_kernels(graph_module: torch.fx.GraphModule) -> None:
    """Replace all launches of Triton kernels with sizes that are numbers, in place.

    Raises ExportError for a kernel that cannot be compiled, with its name and the line.
    """
    wrap: Any = sys.modules.get(_OPS)
    if wrap is None:
        return
    found = graph_module.graph.find_nodes(op="call_function", target=wrap.triton_kernel_wrapper_functional)
    for node in found:
        if not any(map(is_symbolic, _numbers(node))):
            _replace(wrap, graph_module.graph, node)
    if found:
        graph_module.graph.eliminate_dead_code()
        graph_module.recompile()


def triton_kernel(node: torch.fx.Node) -> str | None:
    """The name and the line of the kernel that a node launches; None of other nodes."""
    wrap: Any = sys.modules.get(_OPS)
    targets = (wrap.triton_kernel_wrapper_functional, wrap.triton_kernel_wrapper_mutation) if wrap is not None else ()
    return _place(_function(wrap, node)) if node.target in targets else None


def launches_triton_kernel(error: BaseException) -> bool:
    """Whether an error comes from inside of a kernel's launch."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "triton.runtime.jit":
            return True
        trace = trace.tb_next
    return False


def _numbers(node: torch.fx.Node) -> Iterator[Any]:
    for leaf in pytree.tree_leaves(node.kwargs):
        value = leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf
        if isinstance(value, torch.Tensor):
            yield from (*value.shape, *value.stride())
        else:
            yield value


def _function(wrap: Any, node: torch.fx.Node) -> Any:
    """The function of `triton.jit` under tuners and heuristics."""
    kernel = wrap.kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
    while not hasattr(kernel, "starting_line_number"):
        kernel = kernel.fn
    return kernel


def _place(function: Any) -> str:
    return f"{function.fn.__name__} ({function.fn.__code__.co_filename}:{function.starting_line_number})"


def _replace(wrap: Any, graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    arguments: dict[str, Any] = node.kwargs["kwargs"]  # type: ignore[assignment]
    copied: list[str] = node.kwargs["tensors_to_clone"]  # type: ignore[assignment]
    sources = {name: arg for name, arg in arguments.items() if isinstance(arg, torch.fx.Node)}
    try:
        launched, stand_ins = _launch(wrap, node, sources)
    except Exception as error:  # Triton's own, most of which name the line
        raise ExportError(f"the Triton kernel {_place(_function(wrap, node))} cannot be compiled: {error}") from error
    names = list(sources)
    places = {storage_of(stand_ins[name]): i for i, name in enumerate(names)}
    operands, numbers, written = [], [], {names.index(name) for name in copied}
    for position, (tensor, number) in enumerate(launched.arguments):
        operands.append(-1 if tensor is None else places[storage_of(tensor)])
        numbers.append(number if tensor is None else int(tensor.storage_offset()) * tensor.element_size() + number)
        if tensor is not None and position in launched.program.program.written:
            written.add(operands[-1])
    named[launched.program.key] = launched.program
    results = sorted(written)
    with graph.inserting_before(node):
        launch = graph.call_function(
            torch.ops.atalla.tile_program_copy.default,
            ([sources[name] for name in names], results, launched.program.key, operands, numbers, list(launched.grid)),
        )
    launch.meta = dict(node.meta)
    launch.meta["val"] = [torch._prims_common.clone_preserve_strides(sources[names[i]].meta["val"]) for i in results]
    for user in list(node.users):
        if user.target is not operator.getitem:
            raise AssertionError(f"{user} uses all results of {node}")
        user.args = (launch, results.index(names.index(str(user.args[1]))))
    graph.erase_node(node)


def _launch(
    wrap: Any, node: torch.fx.Node, sources: dict[str, torch.fx.Node]
) -> tuple[Launched, dict[str, torch.Tensor]]:
    """Find the launch that the node makes. It gets other tensors than the node's: zeros, if a tuner runs the kernel."""
    tuned = hasattr(wrap.kernel_side_table.get_kernel(node.kwargs["kernel_idx"]), "configs")
    with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
        stand_ins = {name: _stand_in(source.meta["val"], tuned) for name, source in sources.items()}
        given = dict(node.kwargs)
        for name in ("tensors_to_clone", "tensor_bases"):  # what the copies are made of; torch 2.15 has the latter
            given.pop(name, None)
        given["kwargs"] = {**given["kwargs"], **stand_ins}  # type: ignore[dict-item]
        with observed_launches(run=tuned) as found:
            wrap.triton_kernel_wrapper_mutation_dense(**given)
    return found[-1], stand_ins


def _stand_in(value: torch.Tensor, tuned: bool) -> torch.Tensor:
    sizes, strides = tuple(value.shape), tuple(value.stride())
    make = torch.zeros if tuned else torch.empty
    return make(span(sizes, strides), dtype=value.dtype, device="atalla").as_strided(sizes, strides)
