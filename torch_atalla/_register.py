# SPDX-License-Identifier: BSD-3-Clause
"""Renames PrivateUse1 to `atalla` and hangs the device module into torch. Runs once, at import."""

from __future__ import annotations

import atexit
import time
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
    atexit.register(_let_autograd_settle, device_module)


def _let_autograd_settle(device_module: ModuleType) -> None:
    """At exit, before the interpreter is finalized: gives the interpreter's lock away for a moment.

    Autograd's device thread drops the last graph's Python objects after backward() has returned, for which it needs the
    lock. If it first asks while the interpreter is being finalized, Python ends the thread inside a destructor and the
    process aborts.
    """
    if device_module.is_initialized():
        time.sleep(0.02)
