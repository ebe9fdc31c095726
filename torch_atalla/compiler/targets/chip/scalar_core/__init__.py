# SPDX-License-Identifier: BSD-3-Clause
"""The long tail of kernels, on the scalar core: any dtype that the program stores, any strides, any sizes."""

from __future__ import annotations

from ....program.ir import Launch
from ..formulas.expression import formulas
from . import (
    compacting,
    elementwise,
    image_gradients,
    images,
    indexing,
    norms,
    optimizers,
    order,
    positions,
    products,
    reductions,
    sampling,
)
from .routine import Body

_FAMILIES = (
    compacting, elementwise, image_gradients, images, indexing, norms, optimizers, order, positions, products,
    reductions, sampling,
)  # fmt: skip
_ROUTINES: dict[str, Body] = {name: body for family in _FAMILIES for name, body in family.ROUTINES.items()}


# Kernels that the scalar core could compute only by converting every byte of a weight on its own.
_NO_CONVERSION = "no instruction converts bytes to lanes; decode the weights to bfloat16, or save without engine='isa'"
WITHOUT_ROUTINE = {"gemm_quantized": _NO_CONVERSION}


def routine_of(launch: Launch) -> Body | None:
    """What computes a launch, or None."""
    if launch.kernel in formulas():
        return elementwise.formula
    return _ROUTINES.get(launch.kernel)
