# SPDX-License-Identifier: BSD-3-Clause
"""torch.atalla.FloatTensor and the like: type names from before dtypes and devices.

New code writes `torch.empty(2, 3, device="atalla")`. These exist for old code, for `isinstance` and for `t.type()`.
"""

from __future__ import annotations

from typing import Any

import torch

_DTYPES = {
    "BFloat16Tensor": torch.bfloat16, "BoolTensor": torch.bool, "ByteTensor": torch.uint8, "CharTensor": torch.int8,
    "DoubleTensor": torch.float64, "FloatTensor": torch.float32, "HalfTensor": torch.float16, "IntTensor": torch.int32,
    "LongTensor": torch.int64, "ShortTensor": torch.int16,
}  # fmt: skip

__all__ = [  # noqa: F822  (made below)
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


class _TensorType(type):
    """Type of the tensor types: `FloatTensor(2, 3)` is uninitialised, `FloatTensor([1, 2])` holds values."""

    dtype: torch.dtype
    layout = torch.strided
    is_sparse = False

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, torch.Tensor)
            and instance.device.type == "atalla"
            and instance.dtype == cls.dtype
            and instance.layout == torch.strided
        )

    def __call__(cls, *args: Any, device: Any = "atalla", **kwargs: Any) -> torch.Tensor:
        return torch.empty(0, dtype=cls.dtype, device=device).new(*args, **kwargs)


for _name, _dtype in _DTYPES.items():
    # The dotted name is what Tensor.type() looks at when it is given a type.
    globals()[_name] = _TensorType(f"torch.atalla.{_name}", (), {"dtype": _dtype, "__module__": "torch.atalla"})
