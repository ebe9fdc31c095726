# SPDX-License-Identifier: BSD-3-Clause
"""Registration of the device with Dynamo and Inductor when they are imported.

`import torch` does not import them, so import hooks delay the registration.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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
        if module in sys.modules:
            _register(module)
        else:
            sys.meta_path.insert(0, _Finder(module))


def _register(module: str) -> None:
    importlib.import_module(_HOOKS[module]).register()


class _Finder(importlib.abc.MetaPathFinder):
    """Find one module in the normal way, with a loader that registers the device after the module has executed."""

    def __init__(self, module: str):
        self._module = module

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _register(module.__name__)
