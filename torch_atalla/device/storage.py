# SPDX-License-Identifier: BSD-3-Clause
"""The legacy storage types `torch.atalla.FloatStorage` and its kin, as torch.cuda has them.

They are names of (device, dtype): calling one makes a `torch.TypedStorage`, and isinstance asks for device and dtype.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch.storage import _LegacyStorage

__all__ = [  # noqa: F822  (made below)
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


_DTYPES = {
    "BFloat16": torch.bfloat16, "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Half": torch.float16,
    "ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64, "Double": torch.float64, "Float": torch.float32,
    "Int": torch.int32, "Long": torch.int64, "Short": torch.int16,
}  # fmt: skip

for _name, _dtype in _DTYPES.items():
    _name += "Storage"
    # The last part of the module's name tells torch the device.
    _members = {"dtype": _dtype, "_dtype": _dtype, "__module__": "torch.atalla"}
    globals()[_name] = type(_name, (_AtallaLegacyStorage,), _members)
    torch._storage_classes.add(globals()[_name])
