# SPDX-License-Identifier: BSD-3-Clause
"""The outputs of a launch as the values of csrc/sim/kernels.yaml give them, in a slow loop over their elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import CodeType
from typing import Any

import torch
from kernel_operands import Elements, Undefined, Vector, stored
from value_functions import FUNCTIONS

from tools.codegen.contract import kernel_values
from tools.codegen.kernels import Kernel, by_name, translations


class New:
    """The new value of an output at the place that is computed now."""

    def __init__(self, elements: Elements, compute: Callable[[], Any]):
        self.elements, self.compute = elements, compute

    def __getattr__(self, name: str) -> Any:
        return self.compute() if name == "new" else getattr(self.elements, name)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        return self.elements[index]


def outputs(
    kernel: Kernel, name: str, operands: dict[str, Elements | list[Elements]], parameters: dict[str, Any],
    dtype: torch.dtype,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """The outputs that have a value. Raises IndexError where the launch must fault.

    `operands` has the elements before the launch, a list for a repeated operand; `parameters` the values by name.
    """
    scope: dict[str, Any] = dict(FUNCTIONS) | {f"p_{key}": value for key, value in parameters.items()}
    scope["computed"] = lambda value: value if dtype.is_floating_point or dtype.is_complex else stored(value, dtype)
    scope["this"] = FUNCTIONS.get(name.rpartition(".")[2])
    scope |= {f"o_{key}": value for key, value in operands.items()}
    for operand in kernel.operands:
        value = operands.get(operand.name)
        first = only(value) if value else None
        if first is not None and first.tensor is not None:
            for loop, size in named(operand.terms(), first.sizes, parameters).items():
                if not any("@" in term and term.startswith(f"*{loop}@") for term in operand.terms()):
                    scope.setdefault(f"n_{loop}", size)
    codes = dict(compiled(kernel.names[0]))
    for name in set(codes) - set(operands):
        scope[f"v_{name}"] = partial(eval, codes.pop(name), scope)
    for output, code in codes.items():
        scope[f"o_{output}"] = New(only(operands[output]), partial(eval, code, scope))
    found = {}
    for output, code in codes.items():
        tensor = only(operands[output]).tensor
        if tensor is None:
            continue
        terms = next(operand.terms() for operand in kernel.operands if operand.name == output)
        result = tensor.clone().contiguous()
        for index in itertools.product(*map(range, tensor.shape)):
            scope |= {f"i_{loop}": place for loop, place in named(terms, Vector(index), parameters).items()}
            result[index] = rounded(eval(code, scope), tensor.dtype)
        found[output] = result
    return found


@cache
def compiled(name: str) -> dict[str, CodeType]:
    """The values of a kernel as Python."""
    kernel = by_name()[name]
    texts = translations(kernel.values, kernel.operands, kernel.parameters)
    return {output: compile(text, output, "eval") for output, text in texts.items()}


def rounded(value: Any, dtype: torch.dtype) -> Any:
    """What an output holds of a value. Undefined for an integer if the rounding of a sum or a function decides."""
    whole = not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool
    if whole and isinstance(value, float) and math.isfinite(value):
        distance = abs(value - round(value))
        if 0 < distance < 1e-5 * max(1.0, abs(value)):
            raise Undefined
    return stored(value, dtype)


def only(operand: Elements | list[Elements]) -> Elements:
    """An operand, or the first of a repeated one."""
    return operand[0] if isinstance(operand, list) else operand


def named(terms: Sequence[str], index: Vector, parameters: dict[str, Any]) -> dict[str, Any]:
    """The indices, or sizes, of an operand by the loops of its map; of a group, a vector."""
    names = [kernel_values.loop(term) for term in terms]
    placed = next((k for k, term in enumerate(terms) if "@" in term and not term.startswith("*")), None)
    group = next((k for k, term in enumerate(terms) if term.startswith("*")), None)
    if placed is not None:
        index = index or Vector([0])
        dim = parameters[terms[placed].partition("@")[2]] % len(index)
        parts: list[Any] = [Vector(index[:dim]), index[dim], Vector(index[dim + 1 :])]
    elif group is not None:
        after = len(terms) - group - 1
        end = len(index) - after
        parts = [*index[:group], Vector(index[group:end]), *index[end:]]
    else:
        parts = list(index)
    return {name: part for name, part in zip(names, parts) if name}
