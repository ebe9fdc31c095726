# SPDX-License-Identifier: BSD-3-Clause
"""Expressions of sizes that depend on data: what computes them, and whether they grow with each size."""

from __future__ import annotations

import operator
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions

aten = torch.ops.aten
# Functions for the operations on tensors without dimensions and on the sizes of inputs.
OPERATIONS: dict[Any, tuple[Any, Any]] = {
    sympy.Add: (aten.add.Tensor, operator.add),
    sympy.Mul: (aten.mul.Tensor, operator.mul),
    functions.FloorDiv: (None, operator.floordiv),
    **dict.fromkeys((sympy.Max, functions.Max), (aten.maximum.default, torch.sym_max)),
    **dict.fromkeys((sympy.Min, functions.Min), (aten.minimum.default, torch.sym_min)),
    **dict.fromkeys((functions.Mod, functions.PythonMod), (aten.remainder.Tensor, None)),
    **{
        getattr(sympy, name): (getattr(aten, name.lower()).Tensor, None)
        for name in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge")
    },
    **{sympy.And: (aten.logical_and.default, None), sympy.Or: (aten.logical_or.default, None)},
}


def is_growing(expr: sympy.Basic) -> bool:
    """Whether an expression of counts never becomes smaller when a count grows, as far as its form shows."""
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
