# SPDX-License-Identifier: BSD-3-Clause
"""Hangs the device module into torch. Runs once, at import."""

from __future__ import annotations

import atexit
from types import ModuleType

import torch

from torch_atalla.device import comm
from torch_atalla.driver.extension import _C
from torch_atalla.quantization import ops as quantized_ops

from . import detection, dlpack, dynamo, fake_cache, higher_order, libraries, meta, printing, sharing


class _DeviceModule(ModuleType):
    """torch.atalla with attributes that are asked for and change."""

    @property
    def _initialized(self) -> bool:
        """Whether any device is open: then torch.utils.checkpoint has states of generators to preserve."""
        return any(_C.is_open(i) for i in range(_C.device_count()))


def register(device_module: ModuleType) -> None:
    device_module.__class__ = _DeviceModule
    torch._register_device_module("atalla", device_module)
    device_module._alias_submodules()
    comm.install()
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    printing.install()
    dlpack.install()
    sharing.install()
    dynamo.install()
    higher_order.install()
    meta.install()
    fake_cache.install()
    detection.install()
    quantized_ops.install()
    libraries.install()
    # Threads that may ask for the interpreter's lock end, or have nothing left to ask it for, before the interpreter
    # is finalized.
    atexit.register(_C.shutdown)
