# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels as steps of the pointwise program: ("in", i) is operand i, ("step", i) the result of step i."""

from __future__ import annotations

from math import isfinite, pi, sqrt

from ...program.ir import Immediate, Launch
from .kernels.pointwise import Step

A, B, C = ("in", 0), ("in", 1), ("in", 2)


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
    "sigmoid": [("sigmoid", A)],
    "tanh": [("tanh", A)],
    "silu": [("silu", A)],
    "gelu_none": [("gelu", A)],
    "gelu_tanh": [("gelu", A)],
    "exp": [("exp", A)],
    "neg": [("neg", A)],
    "abs": [("abs", A)],
    "mul": [("mul", A, B)],
    "maximum": [("maximum", A, B)],
    "minimum": [("minimum", A, B)],
    "bitwise_and": [("mul", A, B)],
    "bitwise_or": [("maximum", A, B)],
    "logical_not": [("eq", A, 0.0)],
    "bitwise_not": [("eq", A, 0.0)],
    "where": [("where", A, B, C)],
    "masked_fill": [("where", B, C, A)],
    "reciprocal": [("rcp", A)],
    "sqrt": [("sqrt", A)],
    "rsqrt": [("rsqrt", A)],
    "gt": [("gt", A, B)],
    "lt": [("lt", A, B)],
    "eq": [("eq", A, B)],
    "ne": [("ne", A, B)],
    "div": [("rcp", B), ("mul", A, S(0))],
    "gelu_backward_none": GELU_GRADIENT,
    "gelu_backward_tanh": GELU_GRADIENT,
    "silu_backward": SILU_GRADIENT,
    "sigmoid_backward": [("sub", 1.0, B), ("mul", S(0), B), ("mul", A, S(1))],
    "tanh_backward": [("sub", 1.0, B), ("add", B, 1.0), ("mul", S(0), S(1)), ("mul", A, S(2))],
}

INTEGER_MEANING = ("bitwise_and", "bitwise_or", "bitwise_not")  # for truth values only
TAKE_INFINITIES = ("where", "masked_fill", "eq", "ne", "gt", "lt")


def steps_of(launch: Launch) -> list[Step] | None:
    """The steps of a pointwise launch, or None."""
    import torch

    name = launch.kernel.removeprefix("pointwise.")
    allowed = (torch.bfloat16, torch.bool, torch.float32)
    if any(operand.dtype not in allowed for operand in (*launch.reads(), *launch.writes())):
        return None
    if len(launch.writes()) != 1:
        return None
    if name in INTEGER_MEANING and launch.outputs[0].dtype is not torch.bool:  # type: ignore[union-attr]
        return None
    if name in ("add", "sub"):
        alpha = launch.parameter("alpha")
        second = launch.inputs[1]
        if alpha == 1.0:
            return [(name, A, B)]
        if isinstance(second, Immediate):
            return [(name, A, float(second.value) * alpha)]
        return [("mul", B, alpha), (name, A, S(0))]
    if name == "div" and isinstance(launch.inputs[1], Immediate):
        return [("mul", A, 1.0 / float(launch.inputs[1].value))]
    if name == "leaky_relu":
        return [("leaky", A, launch.parameter("negative_slope"))]
    if name == "threshold_backward":  # of a NaN, the gradient
        threshold = float(launch.parameter("threshold"))
        return [("lt", A, threshold), ("eq", A, threshold), ("maximum", S(0), S(1)), ("where", S(2), 0.0, B)]
    if name in ("addcmul", "addcdiv"):
        product: list[Step] = [("mul", B, C)] if name == "addcmul" else [("rcp", C), ("mul", B, S(0))]
        count = len(product)
        return [*product, ("mul", S(count - 1), float(launch.parameter("value"))), ("add", A, S(count))]
    if name == "pow_tensor_scalar":
        power = launch.parameter("exponent")
        known: dict[float, list[Step]] = {
            2.0: [("mul", A, A)],
            3.0: [("mul", A, A), ("mul", S(0), A)],
            0.5: [("sqrt", A)],
            -0.5: [("rsqrt", A)],
            -1.0: [("rcp", A)],
            1.0: [("round", A)],
        }
        return known.get(power)
    if name in ("clamp", "clamp_min", "clamp_max"):
        low = None if name == "clamp_max" else launch.parameter("min")
        high = None if name == "clamp_min" else launch.parameter("max")
        steps: list[Step] = []
        if low is not None:
            steps.append(("maximum", A, float(low)))
        if high is not None:
            steps.append(("minimum", S(0) if steps else A, float(high)))
        return steps or [("round", A)]
    if name in ("logical_and", "logical_or") and not any(isinstance(x, Immediate) for x in launch.inputs):
        # As truth values: the product of two small numbers may be 0, and the maximum of two negative ones is not.
        combined = "mul" if name == "logical_and" else "maximum"
        return [("ne", A, 0.0), ("ne", B, 0.0), (combined, S(0), S(1))]
    found = FIXED.get(name)
    if found is None or any(
        isinstance(x, Immediate) and not isfinite(float(x.value)) and name not in TAKE_INFINITIES for x in launch.inputs
    ):
        return None
    left = launch.inputs[0] if launch.inputs else None
    if isinstance(left, Immediate) and name not in ("add", "sub", "mul", "where", "masked_fill"):
        return None
    return found
