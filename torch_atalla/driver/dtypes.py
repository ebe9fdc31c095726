# SPDX-License-Identifier: BSD-3-Clause
"""The dtypes of the chip: names for listings, codes for files."""

from __future__ import annotations

import torch

from . import c_abi
from .dtype_names import SHORT_NAMES

_SHORT = {getattr(torch, name): short for name, short in SHORT_NAMES.items()}
# Codes of atalla.h, which coincide with c10::ScalarType.
CODES: dict[torch.dtype, int] = {dtype: getattr(c_abi, f"ATALLA_{short.upper()}") for dtype, short in _SHORT.items()}
DTYPES = {code: dtype for dtype, code in CODES.items()}

BOOL = frozenset({torch.bool})
INTEGER = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
FLOATING = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
COMPLEX = frozenset({torch.complex64, torch.complex128})
REAL = BOOL | INTEGER | FLOATING
ALL = REAL | COMPLEX


def name(dtype: torch.dtype) -> str:
    """The name without its module: "float32"."""
    return str(dtype).removeprefix("torch.")


def short_name(dtype: torch.dtype) -> str:
    """As listings write it: "f32"; the full name of a dtype that the chip does not know."""
    return _SHORT.get(dtype, name(dtype))


def from_name(text: str) -> torch.dtype:
    """torch.float32 for "float32"."""
    dtype = getattr(torch, text, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"expected the name of a dtype, got {text!r}")
    return dtype
