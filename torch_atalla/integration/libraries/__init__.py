# SPDX-License-Identifier: BSD-3-Clause
"""Other libraries on the device (docs/guides/libraries.md): a file per library, applied when the user imports it.

A library that asks torch for the accelerator needs no file here. These ask lists of device names. Each patch does what
the library's own code does for its devices, and only where the library would otherwise take the CPU.
"""

from __future__ import annotations

from . import accelerate, lightning, safetensors, torchao, torchvision, transformers, triton
from .imports import after_import


def install() -> None:
    for library in (accelerate, transformers, lightning, safetensors, torchao, torchvision, triton):
        for module, adapt in library.ADAPTED.items():
            after_import(module, adapt)
