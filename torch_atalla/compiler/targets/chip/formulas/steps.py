# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels as steps of the pointwise program: ("in", i) is operand i, ("step", i) the result of step i.

Most come from their formulas (vector.py). Those that stand here are functions of the vector unit, or round
less than their formulas would."""

from __future__ import annotations

from math import pi, sqrt

import torch

from ....program.ir import AnyOperand, Immediate, Launch, Operand
from ..kernels.pointwise import Step, Unsupported
from .expression import formula_of, formulas
from .vector import Value, steps

A = ("in", 0)
_SCALE = 2 * sqrt(2 / pi)  # gelu is x sigmoid(_SCALE (x + 0.044715 x^3)), as in kernels/activation.py
_INNER = f"((b * b * {0.044715 * _SCALE} + {_SCALE}) * b)"
# sigmoid(-s) is 1 - sigmoid(s) without cancellation.
_GELU_GRADIENT = (
    f"a * (sigmoid({_INNER}) + sigmoid({_INNER}) * sigmoid(-{_INNER}) "
    f"* ((b * b * {3 * 0.044715 * _SCALE} + {_SCALE}) * b))"
)
FUNCTIONS = {"relu": "relu", "silu": "silu", "gelu_none": "gelu", "gelu_tanh": "gelu", "rsqrt": "rsqrt"}
FORMULAS = {
    "gelu_backward_none": _GELU_GRADIENT,
    "gelu_backward_tanh": _GELU_GRADIENT,
    "silu_backward": "a * (sigmoid(b) + sigmoid(b) * sigmoid(-b) * b)",
    "sigmoid_backward": "a * ((1 - b) * b)",
    "tanh_backward": "a * ((1 - b) * (b + 1))",
}  # of operands a and b
POWERS: dict[float, list[Step]] = {
    2.0: [("mul", A, A)],
    3.0: [("mul", A, A), ("mul", ("step", 0), A)],
    0.5: [("sqrt", A)],
    -0.5: [("rsqrt", A)],
    -1.0: [("rcp", A)],
    1.0: [("round", A)],
}
ELEMENTS = (torch.bfloat16, torch.bool, torch.float32)


def steps_of(launch: Launch) -> list[Step] | None:
    """The steps of a pointwise launch; None where the vector unit lacks something."""
    name = launch.kernel.removeprefix("pointwise.")
    operands = (*launch.reads(), *launch.writes())
    if len(launch.writes()) != 1 or any(operand.dtype not in ELEMENTS for operand in operands):
        return None
    immediate = any(isinstance(x, Immediate) for x in launch.inputs)
    if name == "pow_tensor_scalar":
        return POWERS.get(launch.parameter("exponent"))
    if name == "leaky_relu" and not immediate:
        return [("leaky", A, launch.parameter("negative_slope"))]
    if name in FUNCTIONS and not immediate:
        return [(FUNCTIONS[name], A)]
    if name in FORMULAS and not immediate:
        return steps(FORMULAS[name], {"a": A, "b": ("in", 1)})
    text = formula_of(launch.kernel, launch.compute_dtype)
    if text is None or formulas()[launch.kernel]["requires"]:
        return None
    row = formulas()[launch.kernel]
    names: dict[str, Value] = {}
    for scalar in row["scalars"]:
        given = launch.parameter(scalar)
        names[f"has_{scalar}"] = float(given is not None)
        names[scalar] = float(given or 0)
    for number, ((operand, _), x) in enumerate(zip(row["inputs"], launch.inputs, strict=True)):
        names[operand] = number_of(x, launch.compute_dtype) if isinstance(x, Immediate) else ("in", number)
    truths = [("in", i) for i, x in enumerate(launch.inputs) if isinstance(x, Operand) and x.dtype is torch.bool]
    try:
        return steps(text, names, truths)
    except Unsupported:
        return None


def number_of(value: AnyOperand, met: torch.dtype) -> float:
    """What steps in a dtype compute with; a truth value is 0 or 1."""
    assert isinstance(value, Immediate)
    return float(bool(value.value) if torch.bool in (met, value.dtype) else value.value)
