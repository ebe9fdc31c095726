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

A, B = ("in", 0), ("in", 1)


def S(i: int) -> tuple[str, int]:  # noqa: N802
    return ("step", i)


_GELU = 2 * sqrt(2 / pi)  # gelu is x sigmoid(_GELU (x + 0.044715 x^3)), as in kernels/activation.py
# Of operand B, whose gradient is A: sigmoid(-s) is 1 - sigmoid(s) without cancellation.
GELU_GRADIENT: list[Step] = [
    ("mul", B, B), ("mul", S(0), 0.044715 * _GELU), ("add", S(1), _GELU), ("mul", S(2), B),
    ("sigmoid", S(3)), ("neg", S(3)), ("sigmoid", S(5)), ("mul", S(4), S(6)),
    ("mul", S(0), 3 * 0.044715 * _GELU), ("add", S(8), _GELU), ("mul", S(9), B), ("mul", S(7), S(10)),
    ("add", S(4), S(11)), ("mul", A, S(12)),
]  # fmt: skip
SILU_GRADIENT: list[Step] = [
    ("sigmoid", B), ("neg", B), ("sigmoid", S(1)), ("mul", S(0), S(2)), ("mul", S(3), B), ("add", S(0), S(4)),
    ("mul", A, S(5)),
]  # fmt: skip

FIXED: dict[str, list[Step]] = {
    "relu": [("relu", A)],
    "silu": [("silu", A)],
    "gelu_none": [("gelu", A)],
    "gelu_tanh": [("gelu", A)],
    "rsqrt": [("rsqrt", A)],
    "gelu_backward_none": GELU_GRADIENT,
    "gelu_backward_tanh": GELU_GRADIENT,
    "silu_backward": SILU_GRADIENT,
    "sigmoid_backward": [("sub", 1.0, B), ("mul", S(0), B), ("mul", A, S(1))],
    "tanh_backward": [("sub", 1.0, B), ("add", B, 1.0), ("mul", S(0), S(1)), ("mul", A, S(2))],
}
POWERS: dict[float, list[Step]] = {
    2.0: [("mul", A, A)],
    3.0: [("mul", A, A), ("mul", S(0), A)],
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
    if name in FIXED and not immediate:
        return FIXED[name]
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
