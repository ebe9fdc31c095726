# SPDX-License-Identifier: BSD-3-Clause
"""Text of a graph with everything that its program depends on, for keys of the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, ShapeEnv
from torch.utils._sympy.printers import PythonPrinter


def graph_text(graph_module: torch.fx.GraphModule) -> str:
    """Return nodes, types of inputs and outputs, ranges of symbols and constants. `hold` checks the current sizes."""
    graph = graph_module.graph
    ends = [*graph.find_nodes(op="placeholder"), *graph.output_node().all_input_nodes]
    lines = [str(graph), *(f"{node.name}: {_value_text(node.meta.get('val'))}" for node in ends)]
    shape_env = shape_env_of(graph)
    if shape_env is not None:
        ranges = shape_env.var_to_range
        lines += [f"{symbol}: {ranges.get(symbol)}" for symbol in sorted(_symbols(graph), key=str)]
    for node in graph.find_nodes(op="get_attr"):
        held: Any = graph_module
        for part in str(node.target).split("."):
            held = getattr(held, part)
        lines.append(f"{node.name}: {_constant_text(held)}")
    return "\n".join(lines)


def shape_env_of(graph: torch.fx.Graph) -> ShapeEnv | None:
    return next((number.node.shape_env for number in _numbers(graph)), None)


def _symbols(graph: torch.fx.Graph) -> set[Any]:
    return {symbol for number in _numbers(graph) for symbol in number.node.expr.free_symbols}


def _numbers(graph: torch.fx.Graph) -> Iterator[torch.SymInt]:
    for node in graph.nodes:
        for leaf in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(leaf, torch.Tensor):
                yield from (n for n in (*leaf.shape, *leaf.stride()) if isinstance(n, torch.SymInt))
            elif isinstance(leaf, torch.SymInt):
                yield leaf


def _value_text(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return str(value)
    sizes, strides = list(map(str, value.shape)), list(map(str, value.stride()))
    return f"{value.dtype} {sizes} {strides} {value.device.type}"


def _constant_text(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return graph_text(value) if isinstance(value, torch.fx.GraphModule) else repr(value)
    with unset_fake_temporarily():
        flat = value.detach().cpu().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return f"{_value_text(value)} {hashlib.sha256(data).hexdigest()}"


def guards_since(shape_env: ShapeEnv | None, count: int) -> list[str]:
    """Return the guards on sizes that were added after the first `count`, as Python expressions."""
    if shape_env is None:
        return []
    return [PythonPrinter().doprint(guard.expr) for guard in shape_env.guards[count:]]


def hold(guards: list[str], graph: torch.fx.Graph) -> bool:
    """Return whether the current sizes meet the guards. This check also adds them to Dynamo's guards."""
    shape_env = shape_env_of(graph)
    if shape_env is None:
        return not guards
    hints = shape_env.backed_var_to_val
    sizes: dict[str, Any] = {
        str(symbol): shape_env.create_symintnode(symbol, hint=int(hints[symbol]) if symbol in hints else None)
        for symbol in _symbols(graph)
    }
    try:
        return all(bool(eval(guard, SYMPY_INTERP, sizes)) for guard in guards)
    except (NameError, TypeError):  # a guard has a symbol that this graph does not have
        return False
