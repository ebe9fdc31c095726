# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that stand in a descriptor instead of memory, as bytes."""

from __future__ import annotations

import struct

import torch

from .ir import Immediate

_PACK = {
    torch.bool: "<?",
    torch.uint8: "<B",
    torch.int8: "<b",
    torch.int16: "<h",
    torch.int32: "<i",
    torch.int64: "<q",
    torch.float16: "<e",
    torch.float32: "<f",
    torch.float64: "<d",
}


def pack_immediate(operand: Immediate) -> bytes:
    """The value in its dtype, little endian."""
    if operand.dtype in _PACK:
        value = operand.value
        if not operand.dtype.is_floating_point and operand.dtype != torch.bool:
            value = int(value)
        try:
            return struct.pack(_PACK[operand.dtype], value)
        except (OverflowError, struct.error):
            pass  # too large for a narrow float: torch gives the infinity
    return bytes(torch.tensor([operand.value], dtype=operand.dtype).view(torch.uint8).tolist())
