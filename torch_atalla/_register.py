# SPDX-License-Identifier: BSD-3-Clause
"""Renames PrivateUse1 to `atalla` and hangs the device module into torch. Runs once, at import."""

from __future__ import annotations

from types import ModuleType

import torch

from . import _printing


def register(device_module: ModuleType) -> None:
    torch.utils.rename_privateuse1_backend("atalla")
    from . import _C  # noqa: F401  (registers kernels, guard, hooks and allocator)

    torch._register_device_module("atalla", device_module)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _printing.install()
