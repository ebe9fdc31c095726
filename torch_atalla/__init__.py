# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch device `atalla`: a PrivateUse1 backend over the simulated Atalla Ax01 accelerator.

`import torch` is enough: the entry point group `torch.backends` calls `_autoload`, which registers the device.

    x = torch.randn(4, 8, device="atalla")
    report = torch_atalla.save_loadable(torch.export.export(model, (x,)), "model.atl")
    y = torch_atalla.load_loadable("model.atl")(x)
"""

import torch

__version__ = "0.1.0"

from . import device as _device
from ._register import register as _register

_register(_device)

from . import chip, fallback, ops, telemetry  # noqa: E402  (the device must be registered first)
from .loadable import load_loadable, save_loadable  # noqa: E402

__all__ = ["chip", "fallback", "load_loadable", "ops", "save_loadable", "telemetry"]


def _autoload() -> None:
    """Entry point of `torch.backends`: importing this module has done the work."""


del torch
