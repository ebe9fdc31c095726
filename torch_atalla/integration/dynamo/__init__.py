# SPDX-License-Identifier: BSD-3-Clause
"""Registration of the device with Dynamo and Inductor when they are imported.

`import torch` does not import them, so the registration waits for their import.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from ..libraries.imports import call_after_import

# Upstream's module -> our module, whose register() runs after the import.
_HOOKS = {
    "torch._dynamo.device_interface": "torch_atalla.integration.dynamo.interface",
    "torch._dynamo.convert_frame": "torch_atalla.integration.dynamo.tracing",
    "torch._inductor.codegen.common": "torch_atalla.integration.dynamo.inductor",
    "torch._inductor.compile_fx": "torch_atalla.integration.dynamo.default",
    "torch.nn.attention.flex_attention": "torch_atalla.integration.dynamo.flex_attention",
}


def install() -> None:
    for module in _HOOKS:
        call_after_import(module, _register)


def _register(module: ModuleType) -> None:
    importlib.import_module(_HOOKS[module.__name__]).register()
