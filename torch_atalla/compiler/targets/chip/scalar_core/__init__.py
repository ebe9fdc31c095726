# SPDX-License-Identifier: BSD-3-Clause
"""The long tail of kernels, on the scalar core: any dtype that the program stores, any strides, any sizes."""

from __future__ import annotations

from ....program.ir import Launch
from ..formulas.expression import formulas
from . import compacting, image_gradients, indexing, norms, optimizers, order, products, sampling  # noqa: F401
from .elementwise import formula
from .routine import Body, routine

_ROUTINES = routine  # which the families fill; those that are not named above are imported by others

# Kernels that the scalar core could compute only by converting every byte of a weight on its own.
_NO_CONVERSION = "no instruction converts bytes to lanes; decode the weights to bfloat16, or save without engine='isa'"
WITHOUT_ROUTINE = {"gemm_quantized": _NO_CONVERSION}


def routine_of(launch: Launch) -> Body | None:
    """What computes a launch, or None."""
    if launch.kernel in formulas():
        return formula
    return _ROUTINES.get(launch.kernel)
