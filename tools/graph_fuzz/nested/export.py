# SPDX-License-Identifier: BSD-3-Clause
"""Exports programs whose sizes are expressions of symbols."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.export import Dim

from torch_atalla.compiler.program.sizes import Symbols

from ..program import Case
from ..refusals import Refused, quiet


def export_nested(case: Case) -> torch.export.ExportedProgram:
    """With the symbols as they are written, and guards or assertions at run time; if PyTorch takes neither, with a
    symbol for each dimension, of which PyTorch finds out which are equal. A program that asserts which are equal has
    the last form. Raises Refused."""
    reason = ""
    forms = [(_named(case), False), (_named(case), True), (_free(case), False)]
    for shapes, deferred in forms[-1:] if "torch._check(" in case.text else forms:
        module, args = case.build()
        try:
            with quiet(), torch.no_grad():
                return torch.export.export(
                    module, args, dynamic_shapes=shapes, prefer_deferred_runtime_asserts_over_guards=deferred
                )
        except Exception as error:
            reason = type(error).__name__
    raise Refused(f"torch.export: {reason}")


def conditions(case: Case) -> set[str]:
    """What PyTorch alone takes for granted about sizes: its guards, as text, when the program is exported and taken
    apart into core operators."""
    with quiet(), torch.no_grad():
        program = export_nested(case).run_decompositions()
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    sizes: list[Any] = [n for x in values if isinstance(x, torch.Tensor) for n in x.shape]
    sizes = [n for n in sizes if isinstance(n, torch.SymInt)]
    env = sizes[0].node.shape_env if sizes else None
    symbols = Symbols(shape_env=env)
    return {str(symbols.replace(guard.expr)) for guard in env.guards} if env is not None else set()


def _named(case: Case) -> Any:
    lowest = {name: min(values[name] for values in case.sizes) for name in case.sizes[0]}
    symbols: dict[str, Any] = {name: Dim(name, min=low) for name, low in lowest.items()}

    def dimension(text: str) -> Any:
        if text.isdigit():
            return Dim.STATIC
        try:
            return eval(text, {}, symbols)
        except NotImplementedError:  # not linear
            return Dim.AUTO

    return _by_place(case, dimension)


def _free(case: Case) -> Any:
    return _by_place(case, lambda text: Dim.STATIC if text.isdigit() else Dim.AUTO)


def _by_place(case: Case, dimension: Any) -> Any:
    return tuple({k: dimension(text) for k, text in enumerate(dims)} for dims in case.dims)


def within_ranges(program: torch.export.ExportedProgram, args: tuple[Any, ...]) -> bool:
    """Whether the sizes of the arguments are in the ranges that the export says, which its module does not check."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"][-len(args) or None :]
    sizes: dict[Any, int] = {}
    sized = [(node.meta["val"], x) for node, x in zip(nodes, args) if isinstance(x, torch.Tensor)]
    pairs = [(s.node.expr, n) for val, x in sized for s, n in zip(val.shape, x.shape) if isinstance(s, torch.SymInt)]
    for expression, number in pairs:
        if len(expression.free_symbols) == 1:
            (symbol,) = expression.free_symbols
            solved = sympy.solve(expression - number, symbol)
            if not solved:
                return False
            sizes[symbol] = int(solved[0])
    ranges = program.range_constraints
    return all(ranges[symbol].lower <= number <= ranges[symbol].upper for symbol, number in sizes.items())
