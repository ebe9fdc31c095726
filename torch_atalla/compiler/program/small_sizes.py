# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of 0 and 1 that an export leaves out without saying so."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._pytree import tree_leaves, tree_map

from .assignment import Assignment
from .sizes import Symbols

aten = torch.ops.aten

# Ops that at some sizes have another rank, another count of results, a range that ends earlier, or no result.
_FORMS = {
    *(aten.squeeze, aten.slice, aten.select, aten.unfold, aten.diagonal, aten.narrow, aten.unbind),
    *(aten.chunk, aten.split, aten.split_with_sizes, aten.tensor_split),
    *(aten.slice_scatter, aten.select_scatter, aten.diagonal_scatter),
    *(aten.amax, aten.amin, aten.aminmax, aten.argmax, aten.argmin, aten.max, aten.min),
}


def guard_small_sizes(module: torch.fx.GraphModule, symbols: Symbols) -> None:
    """Adds the conditions that a symbol is not 0, or not 1, where an op would not give what the export wrote down.

    PyTorch takes for granted that every symbol is at least 2, even if the range that the user declared begins earlier:
    it records x[:, :2] of n columns as one of 2 columns, without a condition.
    """
    found: set[tuple[sympy.Symbol, int]] = set()
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            if getattr(node.target, "overloadpacket", None) in _FORMS:
                found.update(_refused(node, symbols))
    for symbol, number in sorted(found, key=str):
        condition = sympy.Ne(symbol, number, evaluate=False)  # upstream's symbols claim to be positive
        symbols.guards.append((condition, str(condition)))


def _refused(node: torch.fx.Node, symbols: Symbols) -> list[tuple[sympy.Symbol, int]]:
    given = tree_map(lambda x: x.meta["val"] if isinstance(x, torch.fx.Node) else x, (node.args, node.kwargs))
    sizes = [n for x in tree_leaves(given) for n in (x.shape if isinstance(x, torch.Tensor) else [x])]
    free = {s for n in sizes if isinstance(n, torch.SymInt) for s in symbols.replace(n.node.expr).free_symbols}
    if not free <= {symbol.symbol for symbol in symbols.symbols}:
        return []  # sizes that depend on data
    found = []
    for symbol in symbols.symbols:
        for number in (0, 1) if symbol.symbol in free else ():
            values = [number if other is symbol else other.value for other in symbols.symbols]
            if symbol.min <= number <= symbol.max and not _holds(node, given, Assignment(symbols, values)):
                found.append((symbol.symbol, number))
    return found


def _holds(node: torch.fx.Node, given: Any, sizing: Assignment) -> bool:
    """Whether the results have the sizes that the export says, for these values of the symbols."""

    def number(x: Any) -> Any:
        if isinstance(x, torch.SymInt):
            return sizing.number(x)
        if isinstance(x, torch.Tensor):
            return torch.empty(list(map(sizing.number, x.shape)), dtype=x.dtype, device="meta")
        return x

    target: Any = node.target
    said = tree_leaves(node.meta["val"])
    try:
        args, kwargs = tree_map(number, given)
        results = tree_leaves(target(*args, **kwargs))
    except (RuntimeError, IndexError):
        return False
    return len(results) == len(said) and all(
        list(a.shape) == list(map(sizing.number, b.shape)) for a, b in zip(results, said)
    )
