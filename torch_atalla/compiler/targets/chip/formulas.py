# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels as steps of the pointwise program: ("in", i) is operand i, ("step", i) the result of step i."""

from __future__ import annotations

from math import isfinite

from ...program.ir import Immediate, Launch
from .kernels.pointwise import Step

A, B, C = ("in", 0), ("in", 1), ("in", 2)


def S(i: int) -> tuple[str, int]:  # noqa: N802
    return ("step", i)


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
    "where": [("where", A, B, C)],
    "reciprocal": [("rcp", A)],
    "sqrt": [("sqrt", A)],
    "rsqrt": [("rsqrt", A)],
    "gt": [("gt", A, B)],
    "lt": [("lt", A, B)],
    "eq": [("eq", A, B)],
    "ne": [("ne", A, B)],
    "div": [("rcp", B), ("mul", A, S(0))],
}

INTEGER_MEANING = ("bitwise_and", "bitwise_or")  # for truth values only


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
        isinstance(x, Immediate) and not isfinite(float(x.value)) and name != "where" for x in launch.inputs
    ):
        return None
    first = launch.inputs[0] if launch.inputs else None
    if isinstance(first, Immediate) and name not in ("add", "sub", "mul", "where"):
        return None
    return found
