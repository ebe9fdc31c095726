# SPDX-License-Identifier: BSD-3-Clause
"""safetensors: `load_file(path, device="atalla:1")`.

Its Rust code has the names of devices, and refuses others. It passes a number on to torch, for which a number is a
device of the current accelerator.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from torch_atalla.device import namespace as atalla

from .patching import replaces


def _safetensors(module: ModuleType) -> None:
    @replaces(module, "safe_open")
    def opened(original: Any, filename: Any, framework: Any, device: Any = "cpu", *args: Any, **kwargs: Any) -> Any:
        if isinstance(device, str | torch.device) and str(device).partition(":")[0] == "atalla":
            index = torch.device(device).index
            device = atalla.current_device() if index is None else index
        return original(filename, framework, device, *args, **kwargs)


ADAPTED = {"safetensors": _safetensors}
