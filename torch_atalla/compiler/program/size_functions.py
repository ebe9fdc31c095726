# SPDX-License-Identifier: BSD-3-Clause
"""Functions in expressions of sizes that sympy must not simplify: upstream's symbols claim to be positive, even where
their range has 0."""

from __future__ import annotations

from typing import Any

import sympy


class NotNegative(sympy.Function):
    """The greater of a number and 0."""

    is_integer = True

    @classmethod
    def eval(cls, value: sympy.Basic) -> Any:
        return max(value, sympy.Integer(0)) if value.is_number else None


class NotEmpty(sympy.Function):
    """1 of a size that is not 0, otherwise 0."""

    is_integer = True

    @classmethod
    def eval(cls, value: sympy.Basic) -> Any:
        return min(value, sympy.Integer(1)) if value.is_number else None


def without_functions(expr: sympy.Basic) -> sympy.Basic:
    """Their arguments in their places, for upstream's bounds: what is at least 0 of these is so of the functions."""
    return expr.replace(lambda part: isinstance(part, (NotNegative, NotEmpty)), lambda part: part.args[0])
