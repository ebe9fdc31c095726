# SPDX-License-Identifier: BSD-3-Clause
"""Expressions of sizes that depend on data: whether they grow with each size, and their values on the chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # sympy takes a third of a second to import
    import sympy

aten = torch.ops.aten
Node = torch.fx.Node
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}  # as Python computes


def is_growing(expr: sympy.Basic) -> bool:
    """Whether an expression of counts never becomes smaller when a count grows, as far as its form shows."""
    import sympy
    from torch.utils._sympy import functions

    if expr.is_number or isinstance(expr, sympy.Symbol):
        return True
    if isinstance(expr, (sympy.Add, sympy.Max, sympy.Min, functions.Max, functions.Min)):
        return all(map(is_growing, expr.args))
    if isinstance(expr, sympy.Mul):
        factors = [arg for arg in expr.args if not arg.is_number]
        if bool(sympy.Mul(*(arg for arg in expr.args if arg.is_number)) < 0):
            return False
        return all(factor.is_Symbol for factor in factors) or len(factors) == 1 and is_growing(factors[0])
    if isinstance(expr, (functions.FloorDiv, functions.CleanDiv)):
        return is_growing(expr.args[0]) and bool(expr.args[1].is_number and expr.args[1] > 0)
    return False


def on_chip(rewrite: Any, expr: sympy.Basic) -> Node:
    """A tensor of no dimensions with the value of the expression: int64, float64, or bool for a condition.
    rewrite: a Rewrite."""
    import sympy
    from sympy.logic import boolalg
    from torch.utils._sympy import functions

    call = rewrite.call
    if expr in rewrite.counts:
        return rewrite.counts[expr]
    if isinstance(expr, boolalg.BooleanAtom) or expr.is_Integer or expr.is_Float:
        value: Any = float(expr) if expr.is_Float else int(expr) if expr.is_Integer else bool(expr)
        return call(aten.full.default, [], value, dtype=_DTYPES[type(value)], device=rewrite.device)
    if expr.is_symbol and not rewrite.mode.shape_env.is_unbacked_symint(expr):  # the size of an input
        return call(aten.full.default, [], rewrite.size_node(expr), dtype=torch.int64, device=rewrite.device)
    binary: dict[Any, Any] = {
        sympy.Add: aten.add.Tensor, sympy.Mul: aten.mul.Tensor,
        sympy.Max: aten.maximum.default, sympy.Min: aten.minimum.default,
        functions.Max: aten.maximum.default, functions.Min: aten.minimum.default,
        sympy.Eq: aten.eq.Tensor, sympy.Ne: aten.ne.Tensor, sympy.Lt: aten.lt.Tensor, sympy.Le: aten.le.Tensor,
        sympy.Gt: aten.gt.Tensor, sympy.Ge: aten.ge.Tensor,
        boolalg.And: aten.logical_and.default, boolalg.Or: aten.logical_or.default,
    }  # fmt: skip
    operands = [on_chip(rewrite, arg) for arg in expr.args]
    if isinstance(expr, boolalg.Not):
        return call(aten.logical_not.default, *operands)
    if isinstance(expr, (functions.FloorDiv, functions.CleanDiv)):
        return call(aten.div.Tensor_mode, *operands, rounding_mode="floor")
    if isinstance(expr, (functions.Mod, functions.PythonMod)):
        return call(aten.remainder.Tensor, *operands)
    target = binary.get(expr.func)
    if target is None:
        raise rewrite.Declined(f"the size {expr} is not computed on the chip")
    value = operands[0]
    for operand in operands[1:]:
        value = call(target, value, operand)
    return value
