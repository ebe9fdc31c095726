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
