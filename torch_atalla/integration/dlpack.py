# SPDX-License-Identifier: BSD-3-Clause
"""DLPack. The conversions are torch's own, which call PrivateUse1 `kDLExtDev`; only two methods of Tensor need help.

`Tensor.__dlpack_device__` compares the device's type with "privateuse1", a name that a renamed backend no longer has,
and refuses it; it also calls pinned memory CUDA's. `Tensor.__dlpack__` orders the consumer's stream for CUDA only.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType

from torch_atalla.driver.extension import _C


def _order(tensor: torch.Tensor, stream: int | None) -> None:
    """Makes the consumer's stream wait for what the producer's current stream has been given so far.

    `stream` is a stream's `native_handle`; None or 0 is the default stream, -1 asks for no ordering.
    """
    if stream == -1:
        return
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    ordinal = tensor.device.index
    found = _C.find_stream(stream) if stream else (ordinal, 0)
    if found is None or found[0] != ordinal:
        raise BufferError(f"unsupported stream on atalla: {stream} is not the native_handle of a stream of {ordinal}")
    consumer = torch.Stream(stream_id=found[1], device_index=ordinal, device_type=int(_device_type()))
    current = torch.accelerator.current_stream(tensor.device)
    if consumer != current:
        consumer.wait_event(current.record_event(torch.Event(tensor.device)))


@functools.cache
def _device_type() -> int:
    return torch._C._autograd.DeviceType.PrivateUse1.value


def install() -> None:
    tensor_dlpack = torch.Tensor.__dlpack__
    tensor_dlpack_device = torch.Tensor.__dlpack_device__

    @functools.wraps(tensor_dlpack)
    def dlpack(self: torch.Tensor, *, stream: Any = -1, **kwargs: Any) -> Any:
        if not has_torch_function_unary(self) and self.device.type == "atalla" and not self.requires_grad:
            _order(self, stream)
            stream = -1
        return tensor_dlpack(self, stream=stream, **kwargs)

    @functools.wraps(tensor_dlpack_device)
    def dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
        if not has_torch_function_unary(self):
            if self.device.type == "atalla":
                return DLDeviceType.kDLExtDev, self.device.index
            if self.device.type == "cpu" and torch.version.cuda is None:
                return DLDeviceType.kDLCPU, 0
        return tensor_dlpack_device(self)

    torch.Tensor.__dlpack__ = dlpack  # type: ignore[method-assign]
    torch.Tensor.__dlpack_device__ = dlpack_device  # type: ignore[method-assign]
