# SPDX-License-Identifier: BSD-3-Clause
"""Other libraries on the device (docs/guides/libraries.md): a file per library, applied when the user imports it.

A library that asks torch for the accelerator needs no file here. These ask lists of device names. Each patch does what
the library's own code does for its devices, and only where the library would otherwise take the CPU.
"""

from __future__ import annotations

import functools
import importlib

from .imports import after_import, before_import

# File of this folder -> the packages whose import loads it. Its `ADAPTED` names modules of these packages.
PACKAGES = {
    "accelerate": ("accelerate",),
    "transformers": ("transformers",),
    "lightning": ("lightning", "lightning_fabric", "pytorch_lightning"),
    "safetensors": ("safetensors",),
    "torchao": ("torchao",),
    "torchvision": ("torchvision",),
    "triton": ("triton",),
}


def _watch(file: str, package: str) -> None:
    for module, adapt in importlib.import_module(f".{file}", __name__).ADAPTED.items():
        if module.partition(".")[0] == package:
            after_import(module, adapt)


def install() -> None:
    for file, packages in PACKAGES.items():
        for package in packages:
            before_import(package, functools.partial(_watch, file, package))
