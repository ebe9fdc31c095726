# SPDX-License-Identifier: BSD-3-Clause
"""The legacy storage types `torch.atalla.FloatStorage` and its kin, as torch.cuda has them.

They are names of (device, dtype): calling one makes a `torch.TypedStorage`, and isinstance asks for device and dtype.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch.storage import _LegacyStorage

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage",
]  # fmt: skip


class _AtallaLegacyStorage(_LegacyStorage):
    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("from_buffer: Not available for atalla storage")

    @classmethod
    def _new_with_weak_ptr(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("_new_with_weak_ptr: Not available for atalla storage")

    @classmethod
    def _new_shared_filename(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("_new_shared_filename: Not available for atalla storage")


def _legacy(name: str, dtype: torch.dtype) -> Any:
    # The last part of the module's name tells torch the device.
    made = type(name, (_AtallaLegacyStorage,), {"dtype": dtype, "_dtype": dtype, "__module__": "torch.atalla"})
    torch._storage_classes.add(made)
    return made


BFloat16Storage = _legacy("BFloat16Storage", torch.bfloat16)
BoolStorage = _legacy("BoolStorage", torch.bool)
ByteStorage = _legacy("ByteStorage", torch.uint8)
CharStorage = _legacy("CharStorage", torch.int8)
ComplexDoubleStorage = _legacy("ComplexDoubleStorage", torch.complex128)
ComplexFloatStorage = _legacy("ComplexFloatStorage", torch.complex64)
DoubleStorage = _legacy("DoubleStorage", torch.float64)
FloatStorage = _legacy("FloatStorage", torch.float32)
HalfStorage = _legacy("HalfStorage", torch.float16)
IntStorage = _legacy("IntStorage", torch.int32)
LongStorage = _legacy("LongStorage", torch.int64)
ShortStorage = _legacy("ShortStorage", torch.int16)
