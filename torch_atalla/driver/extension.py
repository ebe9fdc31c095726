# SPDX-License-Identifier: BSD-3-Clause
"""The C++ extension, imported after PrivateUse1 has its name: it registers the kernels of `atalla`."""

import importlib.machinery
import importlib.util
import sys
from types import ModuleType

import torch

import torch_atalla

from .installation import REINSTALL, built_versions, explain, extension_file, torch_mismatch


def _load() -> ModuleType:
    problem = torch_mismatch(built_versions(), torch.__version__)
    if problem is not None:  # before loading: a call into another version of torch may crash
        raise ImportError(f"{problem}. To fix this, {REINSTALL}.")
    path = extension_file()
    if path is None:
        raise ImportError(explain(f"it was built for another Python than {sys.version.split()[0]}"))
    torch.utils.rename_privateuse1_backend("atalla")
    loader = importlib.machinery.ExtensionFileLoader("torch_atalla._C", str(path))
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise ImportError(explain(error)) from error
    sys.modules[loader.name] = module
    setattr(torch_atalla, "_C", module)  # noqa: B010  (mypy reads _C.pyi as a module)
    return module


_C = _load()

__all__ = ["_C"]
