# SPDX-License-Identifier: BSD-3-Clause
"""Text of a graph with everything in it that its program depends on, for keys of the cache.

ambient.py has what a program depends on outside of its graph, size_guards.py what it takes for granted about sizes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves

from torch_atalla.compiler.program.sizes import is_symbolic

from .size_guards import SizeFacts


class NoKey(Exception):  # noqa: N818 (not an error: the graph is compiled without the cache)
    """A graph holds an object whose content cannot be put into a key."""


def graph_text(graph_module: torch.fx.GraphModule) -> str:
    """Return nodes with their arguments and values, aliasing of inputs, and the content of constants and submodules.

    Raises NoKey for a constant that is neither a tensor in dense memory, nor a graph, nor a plain Python value.
    """
    graph = graph_module.graph
    lines = [str(graph), *(f"{node.name}: {_value_text(node.meta.get('val'))}" for node in graph.nodes)]
    lines.append(f"inputs that share memory: {_aliasing(graph)}")
    for node in graph.find_nodes(op="get_attr"):
        lines.append(f"{node.name}: {_constant_text(attrgetter(str(node.target))(graph_module))}")
    return "\n".join(lines)


def size_facts(graph: torch.fx.Graph) -> SizeFacts:
    """Return what is known about the sizes in a graph."""
    numbers = list(_numbers(graph))
    symbols: set[sympy.Symbol] = {symbol for number in numbers for symbol in number.node.expr.free_symbols}
    shape_env: ShapeEnv | None = numbers[0].node.shape_env if numbers else None
    return SizeFacts(shape_env, symbols)


def _numbers(graph: torch.fx.Graph) -> Iterator[Any]:
    """Yield the symbolic numbers among values of nodes: sizes, strides, offsets and scalars."""
    for node in graph.nodes:
        for leaf in tree_leaves(node.meta.get("val")):
            numbers = _layout(leaf) if isinstance(leaf, torch.Tensor) else (leaf,)
            yield from filter(is_symbolic, numbers)


def _layout(value: torch.Tensor) -> tuple[Any, ...]:
    if value.layout is not torch.strided:
        return tuple(value.shape)
    return (*value.shape, *value.stride(), value.storage_offset())


def _value_text(value: Any) -> str:
    """Return the types of all tensors of a value: dtype, sizes, strides, offset, kind of device, layout, lazy bits."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value_text, value))}]"
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {value}"
    numbers = [str(n) for n in _layout(value)]
    bits = "conjugate " * value.is_conj() + "negative " * value.is_neg() + "requires_grad " * value.requires_grad
    return f"{value.dtype} {value.ndim} {numbers} {value.device.type} {value.layout} {bits}{value.is_inference()}"


def _aliasing(graph: torch.fx.Graph) -> list[list[int]]:
    places: dict[int, list[int]] = {}
    for number, node in enumerate(graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            places.setdefault(value.untyped_storage()._cdata, []).append(number)
    return [numbers for numbers in places.values() if len(numbers) > 1]


def _constant_text(value: Any) -> str:
    if isinstance(value, torch.fx.GraphModule):
        return graph_text(value)
    if isinstance(value, (int, float, complex, str, bytes, torch.dtype, torch.device)) or value is None:
        return f"{type(value).__name__} {value!r}"
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided or value.is_quantized:
        raise NoKey(f"{type(value).__name__}")
    with unset_fake_temporarily(), torch.no_grad():
        flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return f"{_value_text(value)} {hashlib.sha256(data).hexdigest()}"
